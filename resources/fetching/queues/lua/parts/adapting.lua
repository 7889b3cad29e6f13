-- Politeness, learnt from what the origin answers. AIMD with a memory: the gap is cut once for each event
-- of refusal, and is approached slowly where it was refused last.
local NEAR, PAST = 1.05, 0.995  -- of the gap that was refused: from here on slowly, from there on as ever

local function is_one_event(d, job, latency)
  return job.claimed <= d.cut_at or now - d.cut_at <= 2 * math.max(latency, d.delay)
end

local function is_near(d) return d.delay <= d.floor * NEAR and d.delay >= d.floor * PAST end

-- How much of the gap a success takes away: most before any refusal, little near the last one, and a little
-- more past it, since an origin that tolerates bursts refuses late.
local function step_of(d)
  if d.floor == 0 then return rules.first_step end
  if is_near(d) then return rules.near_step end
  return d.delay < d.floor and rules.past_step or rules.step
end

local function forgive(d)
  d.failures, d.opens, d.circuit_until, d.opened_at = 0, 0, 0, 0
  if d.trouble_since > 0 then
    d.trouble_since = 0
    redis.call('ZREM', 'fetch:stalls', d.scope)
  end
end

local function note_trouble(d)
  if d.trouble_since > 0 then return end
  d.trouble_since = now
  redis.call('ZADD', 'fetch:stalls', now + rules.stall_ms, d.scope)
end

-- A success. It speeds the domain up only where it was sent as soon as it was allowed.
local function on_success(d, job)
  d.ok, d.ok_at, d.throttles = d.ok + 1, now, 0
  forgive(d)
  if job.claimed <= d.cut_at then return end  -- sent at a rate that was refused since
  if job.paced == '1' and d.set_delay == '' then
    d.delay = math.max(rules.least_delay_ms, d.delay * (1 - step_of(d)))
    if d.delay < d.floor * 0.9 then d.floor = 0 end  -- refused no more
  end
  -- All were in flight, and the gap was over: one more would have been sent.
  local was_full = d.in_flight + 1 >= cap_of(d) and now > d.next and waiting(d) > 0
  if was_full and d.set_cap == '' then
    local target = math.floor(d.cap) + 1
    local step = d.cap_refused > 0 and target >= d.cap_refused and rules.near_cap_step or rules.cap_step
    d.cap = math.min(rules.most_in_flight, d.cap + step / d.cap)
    if d.cap >= d.cap_refused + 0.5 then d.cap_refused = 0 end
  end
end

-- A refusal: the domain's, not the job's.
local function on_throttled(d, job, latency, retry_after)
  d.throttled = d.throttled + 1
  note_trouble(d)
  if not is_one_event(d, job, latency) then
    d.throttles = d.throttles + 1
    -- Where requests waited for others to end, and the gap is not what was refused before, their number may
    -- be what is refused.
    local was_near = is_near(d)
    if d.in_flight + 1 >= cap_of(d) and now > d.next and not was_near and d.cap >= 2 then
      d.cap_refused = math.floor(d.cap)
      d.cap = d.cap_refused - 1
    end
    -- Refused a little past what was refused before: an origin that tolerates bursts says so late.
    local is_known = d.floor > d.delay and d.delay >= d.floor * 0.9
    d.floor, d.cut_at = is_known and (3 * d.floor + d.delay) / 4 or d.delay, now
    d.delay = math.min(rules.most_delay_ms, d.delay * ((was_near or is_known) and rules.near_cut or rules.cut))
  end
  local pause = math.min(rules.most_delay_ms, gap_ms(d) * 2 ^ math.min(20, math.max(0, d.throttles - 1)))
  local asked = math.min(retry_after, rules.most_retry_after_ms)
  local till = now + math.max(asked, pause)
  if till > d.block_until then
    d.block_until, d.block_cause = till, asked > pause and 'asked' or 'refused'
  end
end

-- A failure of the host. After several in a row the circuit opens, for longer each time.
local function on_failed(d, job)
  d.failed = d.failed + 1
  if job.claimed <= d.opened_at then return end
  note_trouble(d)
  d.failures = d.failures + 1
  if d.failures >= rules.failures_to_open then
    d.opens = d.opens + 1
    d.opened_at = now
    local rest = math.min(rules.most_circuit_ms, rules.circuit_ms * 2 ^ math.min(20, d.opens - 1))
    d.circuit_until = now + rest * (0.8 + 0.4 * rules.luck)
  end
end
