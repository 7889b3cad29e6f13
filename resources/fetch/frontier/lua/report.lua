-- Reports a request: the domain learns from it and its place in flight is free. The job goes on
-- being held, is done, or is queued again; then the works that had started with it are too. A waiting work may
-- end in the same step.
-- needs: domain owners line job politeness network spread retry.root retry.turns retry.claim_skip retry.lane_rounds retry.claim_end retry.claim_return works
-- ARGV: rules machine key token verdict status latency_ms retry_after_ms bytes
--       next("hold"|"end"|"again"|"later"|"back") version again_ms
--       | terms work token outcome duration_ms ..., as finish_work takes them
-- -> {1 if that work ended, else 0} then stale | held | ended | more version payloads | again wait_ms | refused
local machine, key, token, verdict, status = unpack(ARGV, 2, 6)
local latency, retry_after, bytes = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local what, version, again_ms = ARGV[10], tonumber(ARGV[11]), tonumber(ARGV[12])

-- Even if the job is lost: the work has a token of its own.
local ended = ARGV[13]
  and finish_work(cjson.decode(ARGV[13]), ARGV[14], ARGV[15], ARGV[16], ARGV[17], {unpack(ARGV, 18)}) or 0

local goes_on = verdict == 'throttled' or verdict == 'unsent' or verdict == 'away' or verdict == 'unreachable'
local of_key = (goes_on or (what ~= 'end' and what ~= 'hold')) and job_of or job_at_its_end
local job = of_key(key)
if not job or job.token ~= token or job.state ~= 'running' then return {ended, 'stale'} end
local d = domain(job.scope)
leave_flight(d, job)
local ours = verdict == 'unsent'

-- Notes the refusing host and path of a registrable domain, for proposals to count them together or apart.
local function note_evidence()
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
local function take_back_attempt(name)
  local tried = job_of(name)
  if not tried or not is_waiting(tried) or tried.attempts == 0 then return end
  set_job(tried, 'attempts', tried.attempts - 1)
  local of = domain(tried.scope)
  of.budget = math.min(rules.retry_budget, of.budget + 1)
  if of ~= d then settle(of) end
end

-- True if our network is away. The failures counted against hosts until then are forgiven.
local function is_our_network()
  if is_away(machine, d.egress) then return true end
  if d.ok_at <= now - rules.outage_ms then return false end
  local hosts = unreachable_name(machine, d.egress)
  note_recent(hosts, d.scope)
  if redis.call('ZCARD', hosts) < rules.outage_hosts then return false end
  for _, scope in ipairs(redis.call('ZRANGE', hosts, 0, -1)) do
    forgive(domain(scope))
    if scope ~= d.scope then settle(domain(scope)) end
  end
  for _, name in ipairs(redis.call('ZRANGE', untold_name(machine, d.egress), 0, -1)) do take_back_attempt(name) end
  goes_away(machine, d.egress)
  spread_parts()
  return true
end

if verdict == 'unsent' then  -- the place in line was not used
  if d.next == job.slot_next then d.next = job.slot_before end
elseif verdict == 'away' then
  ours = true
  goes_away(machine, d.egress)
  spread_parts()
elseif verdict == 'unreachable' then
  ours = is_our_network()
  if not ours then on_failed(d, job) end
else
  if network_works(machine, d.egress) then spread_parts() end
  if verdict == 'ok' then
    on_success(d, job, latency)
  elseif verdict == 'throttled' then
    on_throttled(d, job, latency, retry_after)
    note_evidence()
  elseif verdict == 'failed' then
    on_failed(d, job)
    note_answer(d, latency, false)
  else  -- a refusal of this one request by a host that works: not faster
    d.throttles = 0
    forgive(d)
    note_answer(d, latency, false)
  end
end
if verdict ~= 'unsent' then d.status = status end
if not ours and verdict ~= 'throttled' then
  local before = d.took > 0 and d.took or rules.expected_ms
  d.took = before + (now - job.claimed - before) * rules.took_share
end

local most_bytes = d.set_bytes ~= '' and d.set_bytes or rules.bytes_per_second
if bytes > 0 then
  d.bytes = d.bytes + bytes
  if most_bytes > 0 then d.bytes_until = math.max(now - 1000, d.bytes_until) + bytes / most_bytes * 1000 end
end

local function queue_again(wait_ms)
  redis.call('ZREM', 'fetch:{0}:leases', key)
  if job.lapses > 0 then set_job(job, 'lapses', 0) end  -- its fetcher lives
  if wait_ms > 0 then
    put_later(d, job, now + wait_ms)
    wake_at = math.min(wake_at or now + wait_ms, now + wait_ms)
  else
    put(d, job)
  end
  return {'again', string.format('%.0f', wait_ms)}
end

local function end_or_more()
  if version == job.version then
    forget(job)
    return {'ended'}
  end
  set_job(job, 'state', 'holding')
  return {'more', string.format('%.0f', job.version), redis.call('HGETALL', 'fetch:{0}:wanted:' .. key)}
end

local reply
if verdict == 'throttled' or (ours and verdict ~= 'unsent') then
  queue_again(0)  -- not the job's failure
  local rest = ours and rules.outage_try_ms or 0
  reply = {'again', string.format('%.0f', math.max(rest, allowed_at(d) - now, 0))}
elseif what == 'back' then  -- its turn was used for something else
  reply = queue_again(0)
elseif what == 'later' or (what == 'again' and verdict == 'unsent') then  -- not the job's failure: no attempt
  reply = queue_again(again_ms)
elseif what == 'again' and d.budget < 1 then
  set_job(job, 'state', 'holding')
  reply = {'refused'}
elseif what == 'again' then
  d.budget = d.budget - 1
  set_job(job, 'attempts', job.attempts + 1)
  if verdict == 'unreachable' then note_recent(untold_name(machine, d.egress), key) end
  reply = queue_again(again_ms)
elseif what == 'end' then
  reply = end_or_more()
else
  set_job(job, 'state', 'holding')
  reply = {'held'}
end
if reply[1] == 'again' then requeue_works(job, tonumber(reply[2])) end
settle(d)
count_queued()
wake()
return {ended, unpack(reply)}
