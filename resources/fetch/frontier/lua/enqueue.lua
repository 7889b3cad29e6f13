-- Puts a job into its domain's queue, or joins the one there is with the same key.
-- needs: domain line job scoping
-- ARGV: rules key host site path scope egress lane priority expected_ms('' as others took) later_ms expires_ms obeys_robots
--       url detail id order payload
-- -> queued scope wait_ms closed_ms | joined state wait_ms closed_ms | full wait_ms
local key, host, site, path, scope, egress, lane = unpack(ARGV, 2, 8)
local priority = tonumber(ARGV[9])
local expected, later_ms, expires, robots = unpack(ARGV, 10, 13)
local url, detail, id, order, payload = unpack(ARGV, 14, 18)

-- How long a job at the end of the queue is expected to wait: never less than what the domain is blocked for.
local function expected_wait(d)
  local ahead = 0
  for better = 1, priority do ahead = ahead + d[lane .. '_' .. better] end
  return string.format('%.0f', math.max(0, allowed_at(d) - now) + ahead * gap_ms(d))
end

-- For how long nothing at all is sent to the domain, as far as is known.
local function closed_for(d)
  if d.set_paused == 1 then return string.format('%.0f', rules.paused_ms) end
  return string.format('%.0f', math.max(0, d.block_until - now, d.circuit_until - now))
end

-- A later token of the same work takes the earlier one's place.
local function want(job)
  local wanted = 'fetch:wanted:' .. key
  local before = redis.call('HGET', wanted, id)
  if before and tonumber(string.match(before, '^(%d+) ')) >= tonumber(order) then return false end
  redis.call('HSET', wanted, id, order .. ' ' .. payload)
  return true
end

-- First in, first out by arrival. What expires within the hour is done as if it had arrived an hour before
-- it expires (earliest deadline first, where everything else has an hour): nothing starves by it.
local function place_in_line(arrived)
  return tonumber(expires) > 0 and math.min(arrived, expires - 3600000) or arrived
end

local function better(job)
  local better_lane = lane == 'fast' and job.lane == 'slow' and job.learnt ~= '1'
  local lives_longer = job.expires > 0 and (tonumber(expires) == 0 or tonumber(expires) > job.expires)
  return better_lane, lives_longer, priority < job.priority or better_lane or lives_longer
end

-- What waits for one who need not obey robots.txt is asked for as soon as without the others.
local function excuse(job)
  if robots == '0' and job.robots == '1' and is_waiting(job) then set_job(job, 'robots', '0') end
end

-- What waits is moved to where this request would have put it, never to a slower place. A URL whose
-- signature holds for longer takes the place of the one there is.
local function improve(d, job)
  local better_lane, lives_longer, any = better(job)
  if not any or not is_waiting(job) then return end
  local state, due = job.state, job.due
  take(d, job)
  set_job(job, 'priority', math.min(priority, job.priority), 'lane', better_lane and lane or job.lane)
  if lives_longer then
    set_job(job, 'url', url, 'detail', detail, 'expires', tonumber(expires), 'order', place_in_line(job.arrived))
  end
  if state == 'later' then put_later(d, job, due) else put(d, job) end
end

-- What was slow the last time, or comes from where requests are slow, does not keep the fast lane waiting.
local function lane_by_experience(d)
  local is_slow = redis.call('EXISTS', 'fetch:slow:' .. key) == 1 or d.took >= rules.slow_after_ms
  return is_slow and 'slow' or lane
end

local found = job_of(key)
if found then
  local d = domain(found.scope)
  lane = lane_by_experience(d)
  if want(found) and not is_waiting(found) then set_job(found, 'version', found.version + 1) end
  improve(d, found)
  excuse(found)
  settle(d)
  count_queued()
  wake()
  return {'joined', found.state, expected_wait(d), closed_for(d)}
end

if scope == '' then scope = scope_by_rule(host, site, path) end
local d = domain_by_way(scope, egress)
lane = lane_by_experience(d)
-- The last tenth is kept for what somebody waits for.
local share = priority == 1 and 1 or 0.9
local all = tonumber(redis.call('GET', 'fetch:queued') or 0)
if waiting(d) >= rules.domain_backlog * share or all >= rules.backlog * share then
  return {'full', expected_wait(d)}
end

d.arrived = math.max(d.arrived + 0.001, now)
local job = {key = key}
set_job(job, 'scope', d.scope, 'counted', scope, 'egress', egress, 'host', host, 'site', site, 'path', path,
  'lane', lane, 'priority', priority, 'expected', tonumber(expected) or math.floor(d.took > 0 and d.took or rules.expected_ms), 'order', place_in_line(d.arrived),
  'expires', tonumber(expires), 'robots', robots, 'url', url, 'detail', detail, 'arrived', d.arrived,
  'attempts', 0, 'lapses', 0, 'version', 0)
local wait = expected_wait(d)
want(job)
if tonumber(later_ms) > 0 then
  put_later(d, job, now + later_ms)
  wake_at = now + later_ms
else
  put(d, job)
end
settle(d)
redis.call('ZADD', 'fetch:domains', now, d.scope)
redis.call('ZREMRANGEBYSCORE', 'fetch:domains', '-inf', now - rules.kept_ms)
count_queued()
wake()
return {'queued', d.scope, wait, closed_for(d)}
