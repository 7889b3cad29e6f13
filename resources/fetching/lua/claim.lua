-- The next job for a fetcher that has room in these lanes: one that is to fail without a request first, then
-- among the domains that are due interactive work, flagged work, and where the most remains to be done.
-- needs: domain line job reaping
-- ARGV: rules worker machine | lanes
-- -> claimed token version job payloads | doomed token version job payloads | idle wait_ms
local worker, machine = ARGV[2], ARGV[3]
local MOST_MOVES, MOST_TRIES, LONGEST_MS = 32, 16, 60000

local function hand_out(how, job, state)
  local token = new_token()
  local lease = now + rules.lease_ms
  set_job(job, 'state', state, 'token', token, 'worker', worker, 'claimed', now)
  redis.call('ZADD', 'fetch:leases', lease, job.key)
  redis.call('ZREM', 'fetch:idle', worker)
  wake()
  return {how, token, string.format('%.0f', job.version), redis.call('HGETALL', job_name(job.key)),
    redis.call('HGETALL', 'fetch:wanted:' .. job.key)}
end

-- Seconds between tries while this machine's network is away: one request tells whether it is back.
local function network_rest()
  local network = redis.call('HMGET', 'fetch:network:' .. machine, 'since', 'try_at')
  if not network[1] or now - network[1] > rules.outage_ms then return 0 end
  return math.max(0, network[2] - now)
end

local function bring_due(lane, priority)
  local waiting_set = 'fetch:waiting:' .. lane .. ':' .. priority
  for _, scope in ipairs(due(waiting_set, MOST_MOVES)) do settle(domain(scope)) end
end

local function request_of(d, lane)
  local priority = best_priority(d, lane)
  local key = redis.call('ZRANGE', 'fetch:jobs:' .. d.scope .. ':' .. lane .. ':' .. priority, 0, 0)[1]
  local job = job_of(key)
  take(d, job)
  if job.expires > 0 and job.expires <= now then
    doom(job, 'expired')
    settle(d)
    return nil
  end
  local gap = gap_ms(d)
  if d.set_delay == '' then gap = math.max(gap, job.crawl) end
  -- Only who keeps asking learns how fast it may: an idle domain's success says nothing of its rate.
  local paced = d.next > 0 and now - allowed_at(d) <= math.max(gap, 20)
  local before = d.next
  d.next = now + gap * (0.9 + 0.2 * rules.luck)
  d.in_flight = d.in_flight + 1
  if lane == 'slow' then d.slow_in_flight = d.slow_in_flight + 1 end
  d.asked_at = now
  d.budget = math.min(rules.retry_budget, d.budget + rules.retry_share)
  set_job(job, 'slot_before', before, 'slot_next', d.next, 'paced', paced and '1' or '0')
  settle(d)
  return job
end

local function earliest(set, floor)
  local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  return first[2] and math.max(floor, tonumber(first[2])) or math.huge
end

local function next_event()
  local at = now + LONGEST_MS
  for place = 4, #ARGV do
    for priority = 1, 3 do
      at = math.min(at, earliest('fetch:waiting:' .. ARGV[place] .. ':' .. priority, now))
    end
  end
  for _, set in ipairs({'fetch:leases', 'fetch:later', 'fetch:expiring', 'fetch:stalls'}) do
    at = math.min(at, earliest(set, now))
  end
  return at
end

local function idle(wait_ms)
  wait_ms = math.ceil(math.max(0, wait_ms))
  redis.call('ZADD', 'fetch:idle', now + wait_ms + 1000, worker)
  wake()
  return {'idle', wait_ms}
end

reap()
local doomed = redis.call('ZRANGE', 'fetch:doomed', 0, 0)[1]
if doomed then
  redis.call('ZREM', 'fetch:doomed', doomed)
  return hand_out('doomed', job_of(doomed), 'ending')
end

local rest = network_rest()
if rest > 0 then return idle(rest) end

local tries = 0
for priority = 1, 3 do
  for place = 4, #ARGV do
    local lane = ARGV[place]
    bring_due(lane, priority)
    local line = 'fetch:due:' .. lane .. ':' .. priority
    local scope = redis.call('ZREVRANGE', line, 0, 0)[1]
    while scope and tries < MOST_TRIES do
      tries = tries + 1
      local job = request_of(domain(scope), lane)
      if job then
        if redis.call('EXISTS', 'fetch:network:' .. machine) == 1 then
          redis.call('HSET', 'fetch:network:' .. machine, 'try_at', now + rules.outage_try_ms)
        end
        return hand_out('claimed', job, 'running')
      end
      scope = redis.call('ZREVRANGE', line, 0, 0)[1]
    end
  end
end
return idle(tries > 0 and 0 or next_event() - now)
