-- Reports requests: the domain of each learns from it and its place in flight is free. The job goes on
-- being held, is done, or is queued again; then the works that had started with it are too. A waiting work may
-- end in the same step.
-- needs: retry.gathered domain owners line job politeness network spread retry.root retry.turns retry.claim_skip retry.lane_rounds retry.claim_end retry.claim_return works items
-- ARGV: rules machine terms (of finish_work) | for each request
--       key token verdict status latency_ms retry_after_ms bytes
--       next("hold"|"end"|"again"|"later"|"back") version again_ms number_of_work_parts
--       (work token outcome duration_ms ..., as finish_work takes them)
-- -> for each {1 if that work ended, else 0} then stale | held | ended | more version payloads | again wait_ms | refused;
--    or its error
local machine, terms = ARGV[2], cjson.decode(ARGV[3])
local PARTS_OF_ONE = 11

-- Notes the refusing host and path of a registrable domain, for proposals to count them together or apart.
local function note_evidence(job)
  local events = 'fetch:{0}:evidence:' .. job.site
  redis.call('LPUSH', events, cjson.encode({now, job.host, job.path, job.counted or job.scope}))
  redis.call('LTRIM', events, 0, 99)
  redis.call('PEXPIRE', events, 86400000)
  redis.call('ZADD', 'fetch:{0}:evidence', now, job.site)
  redis.call('ZREMRANGEBYSCORE', 'fetch:{0}:evidence', '-inf', now - 86400000)
  local excess = redis.call('ZCARD', 'fetch:{0}:evidence') - rules.most_evidence
  local oldest = excess > 0 and redis.call('ZPOPMIN', 'fetch:{0}:evidence', excess) or {}
  for place = 1, #oldest, 2 do redis.call('DEL', 'fetch:{0}:evidence:' .. oldest[place]) end
end

-- Takes back an attempt that failed by our own network. A job that has failed for good meanwhile stays so.
local function take_back_attempt(name, d)
  local tried = job_of(name)
  if not tried or not is_waiting(tried) or tried.attempts == 0 then return end
  set_job(tried, 'attempts', tried.attempts - 1)
  local of = domain(tried.scope)
  of.budget = math.min(rules.retry_budget, of.budget + 1)
  if of ~= d then settle(of) end
end

-- True if our network is away. The failures counted against hosts until then are forgiven.
local function is_our_network(d)
  if is_away(machine, d.egress) then return true end
  if d.ok_at <= now - rules.outage_ms then return false end
  local hosts = unreachable_name(machine, d.egress)
  note_recent(hosts, d.scope)
  if redis.call('ZCARD', hosts) < rules.outage_hosts then return false end
  for _, scope in ipairs(redis.call('ZRANGE', hosts, 0, -1)) do
    forgive(domain(scope))
    if scope ~= d.scope then settle(domain(scope)) end
  end
  for _, name in ipairs(redis.call('ZRANGE', untold_name(machine, d.egress), 0, -1)) do take_back_attempt(name, d) end
  goes_away(machine, d.egress)
  spread_parts()
  return true
end

-- The domain learns from the outcome. Returns whether a failure is that of our own network, or nothing was sent.
local function learn(d, job, verdict, latency, retry_after)
  if verdict == 'unsent' then  -- the place in line was not used
    if d.next == job.slot_next then d.next = job.slot_before end
    return true
  elseif verdict == 'away' then
    goes_away(machine, d.egress)
    spread_parts()
    return true
  elseif verdict == 'unreachable' then
    if is_our_network(d) then return true end
    on_failed(d, job)
    return false
  end
  if network_works(machine, d.egress) then spread_parts() end
  if verdict == 'ok' then
    on_success(d, job, latency)
  elseif verdict == 'throttled' then
    on_throttled(d, job, latency, retry_after)
    note_evidence(job)
  elseif verdict == 'failed' then
    on_failed(d, job)
    note_answer(d, latency, false)
  else  -- a refusal of this one request by a host that works: not faster
    d.throttles = 0
    forgive(d)
    note_answer(d, latency, false)
  end
  return false
end

local function count_bytes(d, bytes)
  local most_bytes = d.set_bytes ~= '' and d.set_bytes or rules.bytes_per_second
  if bytes == 0 then return end
  d.bytes = d.bytes + bytes
  if most_bytes > 0 then d.bytes_until = math.max(now - 1000, d.bytes_until) + bytes / most_bytes * 1000 end
end

local function queue_again(d, job, wait_ms)
  redis.call('ZREM', 'fetch:{0}:leases', job.key)
  if job.lapses > 0 then set_job(job, 'lapses', 0) end  -- its fetcher lives
  if wait_ms > 0 then
    put_later(d, job, now + wait_ms)
    wake_at = math.min(wake_at or now + wait_ms, now + wait_ms)
  else
    put(d, job)
  end
  return {'again', string.format('%.0f', wait_ms)}
end

local function hold(job, answer)
  set_job(job, 'state', 'holding')
  return {answer}
end

local function end_or_more(job, version)
  if version == job.version then
    forget(job)
    return {'ended'}
  end
  set_job(job, 'state', 'holding')
  return {'more', string.format('%.0f', job.version), redis.call('HGETALL', 'fetch:{0}:wanted:' .. job.key)}
end

-- What becomes of the job: the reply.
local function go_on(d, job, verdict, ours, what, version, again_ms)
  if verdict == 'throttled' or (ours and verdict ~= 'unsent') then
    queue_again(d, job, 0)  -- not the job's failure
    local rest = ours and rules.outage_try_ms or 0
    return {'again', string.format('%.0f', math.max(rest, allowed_at(d) - now, 0))}
  elseif what == 'back' then  -- its turn was used for something else
    return queue_again(d, job, 0)
  elseif what == 'later' or (what == 'again' and verdict == 'unsent') then  -- not the job's failure: no attempt
    return queue_again(d, job, again_ms)
  elseif what == 'again' and d.budget < 1 then
    return hold(job, 'refused')
  elseif what == 'again' then
    d.budget = d.budget - 1
    set_job(job, 'attempts', job.attempts + 1)
    if verdict == 'unreachable' then note_recent(untold_name(machine, d.egress), job.key) end
    return queue_again(d, job, again_ms)
  elseif what == 'end' then
    return end_or_more(job, version)
  end
  return hold(job, 'held')
end

-- The domains that reports of this call have changed, and the jobs and works that these have ended. All are written at
-- the end, or before a report that may read them.
local changed, is_ended = {}, {}

local function save_changed()
  for d in pairs(changed) do
    place(d)
    keep_changes(d)
  end
  write_gathered()
  changed, is_ended = {}, {}
end

local latest, before = nil, nil  -- the domain of the latest report, as earlier ones had changed it

-- Notes that a report changes the domain.
local function note_changed(d)
  latest, before = d, changed[d] and {}
  for name, value in pairs(before and d or {}) do before[name] = value end
  changed[d] = true
end

-- Takes back what the latest report has changed of domains. No half of its changes are saved with others.
local function take_back_changes()
  if latest and not before then changed[latest] = nil end
  for name in pairs(before and latest or {}) do latest[name] = before[name] end
  loaded = {}
  for d in pairs(changed) do loaded[d.scope] = d end
end

local function report(first)
  local key, token, verdict, status = unpack(ARGV, first, first + 3)
  local what, parts = ARGV[first + 7], tonumber(ARGV[first + 10])
  local work = first + PARTS_OF_ONE
  local goes_on = verdict == 'throttled' or verdict == 'unsent' or verdict == 'away' or verdict == 'unreachable'
    or (what ~= 'end' and what ~= 'hold')
  latest, before = nil, nil
  if goes_on or is_ended[key] or (parts > 0 and is_ended[ARGV[work]]) then save_changed() end
  -- Even if the job is lost: the work has a token of its own.
  local ended = parts > 0 and finish_work(terms, ARGV[work], ARGV[work + 1], ARGV[work + 2], ARGV[work + 3],
    parts > 4 and {unpack(ARGV, work + 4, work + parts - 1)} or {}) or 0
  if parts > 0 then is_ended[ARGV[work]] = true end
  local job = goes_on and job_of(key) or job_at_its_end(key)
  if not job or job.token ~= token or job.state ~= 'running' then return {ended, 'stale'} end
  is_ended[key] = true
  local d = domain(job.scope)
  note_changed(d)
  leave_flight(d, job)
  local ours = learn(d, job, verdict, tonumber(ARGV[first + 4]), tonumber(ARGV[first + 5]))
  if verdict ~= 'unsent' then d.status = status end
  if not ours and verdict ~= 'throttled' then
    local before = d.took > 0 and d.took or rules.expected_ms
    d.took = before + (now - job.claimed - before) * rules.took_share
  end
  count_bytes(d, tonumber(ARGV[first + 6]))
  local reply = go_on(d, job, verdict, ours, what, tonumber(ARGV[first + 8]), tonumber(ARGV[first + 9]))
  if reply[1] == 'again' then
    write_gathered()
    requeue_works(job, tonumber(reply[2]))
  end
  return {ended, unpack(reply)}
end

local replies, first = {}, 4
while first <= #ARGV do
  replies[#replies + 1] = reply_of(report, take_back_changes, first)
  first = first + PARTS_OF_ONE + tonumber(ARGV[first + 10])
end
save_changed()
keep_durations(terms)
count_queued()
wake()
return replies
