-- Politeness, learnt from the origin's answers. A refusal says that too many were in flight, or that they came too
-- fast: the first where others were in flight, more than it has served before, and the second else. Fewer are in flight
-- then, or the gap is longer, once for each event. Both are tried again later, the more seldom the more often in vain.
-- From a refused gap
-- it comes back to just above the refused gap, stays there for long, and is then probed past, the further
-- the longer nothing is refused: rate = known * (1 + phase^7), as CUBIC has it with a third power.
local KNOWN = 1.02  -- a gap up to this times the known one counts as known: its refusal tells little new
local SURE = 3  -- so many served requests show that as many may be in flight
local MOST_PROBES = 3
local MOST_BURST = 1.3  -- the mean gap counts for no more than so many times the gap

local function is_one_event(d, job, latency)
  return job.claimed <= d.cut_at or now - d.cut_at <= 2 * math.max(latency, d.delay)
end

-- The gap in use: a little longer than the refused one, and more so if a refusal costs a pause.
local function known_gap(d) return d.floor * (d.asked > 0 and rules.asked_margin or rules.margin) end

-- The time that requests at the known gap take for one phase. An origin that asks for long pauses is probed seldom.
local function span_ms(d)
  local asked = rules.probe_asked * math.min(d.asked, rules.most_asked_ms)
  return math.max(rules.probe_requests * d.floor, rules.probe_ms, asked)
end

-- One more success. Time counts only as far as requests filled it. Where the least gap is in use, nothing is learnt of
-- shorter ones.
local function speed_up(d)
  d.mean = d.mean + (d.delay - d.mean) * rules.mean_share
  if d.delay <= least_gap(d) then return end
  if d.floor == 0 then
    d.delay = d.delay * (1 - rules.first_step)
  elseif d.phase < 0 then  -- on the way back: so many requests are left of it
    d.delay = d.delay + (known_gap(d) - d.delay) / -d.phase
    d.phase = math.min(0, d.phase + 1)
  else
    d.phase = d.phase + d.delay / span_ms(d)
    d.delay = math.min(d.delay, known_gap(d) / (1 + d.phase ^ 7))
  end
  d.delay = math.max(rules.least_delay_ms, d.delay)
end

-- The number of requests in flight with that of the job: those that were when it was claimed, or are at its end. A job
-- that an earlier version claimed does not know of the first.
local function at_once(d, job) return math.max(job.beside or 0, d.in_flight) + 1 end

-- Notes a served request with so many in flight. Where that number was refused, it is allowed after all.
local function note_served(d, at_once)
  if at_once > d.served_most then
    d.served_most, d.served_times = at_once, 1
  elseif at_once == d.served_most then
    d.served_times = math.min(SURE, d.served_times + 1)
  end
  if d.served_times == SURE and d.served_most >= d.cap_refused then d.cap_refused, d.cap_probes = 0, 0 end
end

-- Allows more in flight, after requests that found all in flight. A refused number is tried again after
-- `cap_probe_requests` of them, four times as many for each time that it was refused again, and the more seldom the
-- longer a refusal asks to wait.
local function allow_more(d)
  local usual = math.floor(d.cap)
  local step = rules.cap_step / d.cap
  if d.cap_refused > 0 and usual + 1 >= d.cap_refused then
    step = 1 / rules.cap_probe_requests
    if d.asked > 0 then step = math.min(step, answer_gap(d) / rules.probe_asked / math.min(d.asked, rules.most_asked_ms)) end
    step = step / 4 ^ d.cap_probes
  end
  d.cap = math.min(rules.most_in_flight, d.cap + step)
end

-- True if the number in flight explains a refusal: so many were not served before.
local function is_number_refused(d, at_once)
  if d.set_cap ~= '' or at_once < 2 then return false end
  return at_once > d.served_most or (at_once == d.served_most and d.served_times < SURE)
end

-- Fewer in flight, and the gap stays. If it became longer for a refusal that has the same cause, it is what it was.
local function allow_fewer(d, at_once, asked)
  d.cap_probes = at_once == d.cap_refused and math.min(MOST_PROBES, d.cap_probes + 1) or 0
  d.cap_refused, d.cap = at_once, at_once - 1
  if d.served_most >= at_once then d.served_most, d.served_times = at_once - 1, SURE end
  d.cut_at, d.asked = now, asked
  if d.floor > 0 and d.cut_beside ~= 0 and d.set_delay == '' then
    d.delay = math.min(d.delay, d.floor)
    d.floor, d.phase, d.mean = 0, 0, d.delay
  end
end

-- The recent mean gap counts as the refused one: a rate that grows fast is past the limit by the time of the refusal.
local function slow_down(d, at_once, asked)
  -- What was refused. Where all were in flight, requests were further apart than by the gap.
  if d.set_delay == '' then d.delay = math.max(gap_ms(d), answer_gap(d)) end
  local is_known = d.floor > 0 and d.delay <= known_gap(d) * KNOWN
  d.floor = math.max(d.delay, math.min(d.mean, d.delay * MOST_BURST))
  d.cut_at, d.asked = now, asked
  local cut = d.delay * (is_known and rules.near_cut or rules.cut)
  d.delay = math.min(rules.most_delay_ms, math.max(cut, known_gap(d)))
  d.mean, d.phase = d.delay, -rules.back_requests
  d.cut_beside, d.served_most, d.served_times = at_once - 1, 1, 0
end

local function forgive(d)
  d.failures, d.opens, d.circuit_until, d.opened_at = 0, 0, 0, 0
  if d.trouble_since > 0 then
    d.trouble_since = 0
    redis.call('ZREM', 'fetch:{0}:stalls', d.scope)
  end
end

local function note_trouble(d)
  if d.trouble_since > 0 then return end
  d.trouble_since = now
  redis.call('ZADD', 'fetch:{0}:stalls', now + rules.stall_ms, d.scope)
end

-- Notes the time of an answer. Failures, however fast, do not make the mean shorter.
local function note_answer(d, latency, is_success)
  local before = d.answer > 0 and d.answer or latency
  local mean = before + (latency - before) * rules.took_share
  if is_success or mean > before then d.answer = whole(mean) end
end

-- A success. It speeds the domain up only if it was sent as soon as it was allowed.
local function on_success(d, job, latency)
  note_answer(d, latency, true)
  d.ok, d.ok_at, d.throttles = d.ok + 1, whole(now), 0
  forgive(d)
  if job.claimed <= d.cut_at then return end  -- sent at a rate that was refused since
  if job.beside then note_served(d, job.beside + 1) end
  if job.paced == '1' and d.set_delay == '' then
    speed_up(d)
  end
  -- All were in flight, and the gap was over, or is that of so many in flight: one more would have been sent.
  local was_full = d.in_flight + 1 >= cap_of(d) and (now > d.next or is_slow(d)) and waiting(d) > 0
  if was_full and d.set_cap == '' then allow_more(d) end
end

-- A refusal: the domain's, not the job's.
local function on_throttled(d, job, latency, retry_after)
  d.throttled = d.throttled + 1
  note_trouble(d)
  local asked = math.min(retry_after, rules.most_retry_after_ms)
  if not is_one_event(d, job, latency) then
    d.throttles = d.throttles + 1
    local number = at_once(d, job)
    if is_number_refused(d, number) then allow_fewer(d, number, asked) else slow_down(d, number, asked) end
  end
  local gap = math.max(gap_ms(d), rules.least_delay_ms)  -- an admin's may be nothing
  local pause = math.min(rules.most_delay_ms, gap * 2 ^ math.min(20, math.max(0, d.throttles - 1)))
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
