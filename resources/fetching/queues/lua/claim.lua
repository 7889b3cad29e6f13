-- The next job for a fetcher that has room in these lanes: one that is to fail without a request first, then
-- among the domains that are due interactive work, flagged work, and where the most remains to be done.
-- needs: domain line job network reaping
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

-- The ways out of this machine that may be used now, and when another may be tried: while the network is away
-- through one of them, a request now and then tells whether it is back.
local function open_ways()
  local known, open, next_try = redis.call('SMEMBERS', 'fetch:egresses'), {}, math.huge
  known[#known + 1] = ''
  for _, egress in ipairs(known) do
    local network = redis.call('HMGET', network_name(machine, egress), 'since', 'try_at')
    local try_at = tonumber(network[2])
    if not network[1] or now - network[1] > rules.outage_ms or try_at <= now then
      open[#open + 1] = egress
    else
      next_try = math.min(next_try, try_at)
    end
  end
  return open, next_try
end

-- The domain with the most left of those that are due, whichever way its requests go.
local function first_due(lane, priority, ways)
  local first, most = nil, -1
  for _, egress in ipairs(ways) do
    local found = redis.call('ZREVRANGE', line_of('due', lane, priority, egress), 0, 0, 'WITHSCORES')
    if found[1] and tonumber(found[2]) > most then first, most = found[1], tonumber(found[2]) end
  end
  return first
end

local function bring_due(lane, priority, ways)
  for _, egress in ipairs(ways) do
    for _, scope in ipairs(due(line_of('waiting', lane, priority, egress), MOST_MOVES)) do settle(domain(scope)) end
  end
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
  local gap, obeys = gap_ms(d), job.robots == '1' and d.set_delay == ''
  if obeys then gap = math.max(gap, d.crawl) end
  local needs_robots = obeys and d.crawl_until <= now
  if needs_robots then d.robots_job = job.key end
  -- Only who keeps asking learns how fast it may: an idle domain's success says nothing of its rate.
  local paced = d.next > 0 and gap == gap_ms(d) and now - allowed_at(d) <= math.max(gap, 20)
  local before = d.next
  d.next = now + gap * (0.9 + 0.2 * rules.luck)
  d.in_flight = d.in_flight + 1
  if lane == 'slow' then d.slow_in_flight = d.slow_in_flight + 1 end
  d.asked_at = now
  d.budget = math.min(rules.retry_budget, d.budget + rules.retry_share)
  set_job(job, 'slot_before', before, 'slot_next', d.next, 'paced', paced and '1' or '0',
    'needs_robots', needs_robots and '1' or '0')
  settle(d)
  return job
end

local function earliest(set, floor)
  local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  return first[2] and math.max(floor, tonumber(first[2])) or math.huge
end

local function next_event(ways)
  local at = now + LONGEST_MS
  for place = 4, #ARGV do
    for priority = 1, 3 do
      for _, egress in ipairs(ways) do
        at = math.min(at, earliest(line_of('waiting', ARGV[place], priority, egress), now))
      end
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

local ways, next_try = open_ways()
local tries = 0
for priority = 1, 3 do
  for place = 4, #ARGV do
    local lane = ARGV[place]
    bring_due(lane, priority, ways)
    local scope = first_due(lane, priority, ways)
    while scope and tries < MOST_TRIES do
      tries = tries + 1
      local d = domain(scope)
      local job = request_of(d, lane)
      if job then
        local network = network_name(machine, d.egress)
        if redis.call('EXISTS', network) == 1 then
          redis.call('HSET', network, 'try_at', now + rules.outage_try_ms)
        end
        return hand_out('claimed', job, 'running')
      end
      scope = first_due(lane, priority, ways)
    end
  end
end
return idle(tries > 0 and 0 or math.min(next_try, next_event(ways)) - now)
