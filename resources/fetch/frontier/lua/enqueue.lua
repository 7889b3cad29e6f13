-- Puts jobs into their domains' queues; or joins the existing job of a key.
-- needs: retry.root retry.gathered domain owners line job scope_rules domains items
-- ARGV: rules | for each job
--       key host site path scope egress lane priority expected_ms('' as others took) later_ms expires_ms obeys_robots
--       url detail id token payload
-- -> for each queued scope wait_ms rest_ms
--    | joined state wait_ms rest_ms new("1"|"0": this claim waits for it already) | full wait_ms; or its error
local PARTS_OF_ONE = 17
local key, host, site, path, scope, egress, lane, priority
local expected, later_ms, expires, robots, url, detail, id, token, payload

-- Reads the job to enqueue.
local function read_job(first)
  key, host, site, path, scope, egress, lane = unpack(ARGV, first, first + 6)
  priority = tonumber(ARGV[first + 7])
  expected, later_ms, expires, robots, url, detail, id, token, payload = unpack(ARGV, first + 8, first + 16)
end

-- The expected wait of a job at the end of the queue: never less than the domain's block.
local function expected_wait(d)
  local ahead = 0
  for better = 1, priority do ahead = ahead + d[FIELDS[lane][better]] end
  return string.format('%.0f', math.max(0, allowed_at(d) - now) + ahead * gap_ms(d))
end

-- The time for which the domain rests, as far as is known.
local function rest_ms_of(d)
  if d.set_paused == 1 then return string.format('%.0f', rules.paused_ms) end
  return string.format('%.0f', math.max(0, d.block_until - now, d.circuit_until - now))
end

-- Adds the waiter. A later token of the same work replaces the earlier one. Returns whether it did.
local function want(job)
  local wanted = 'fetch:{0}:wanted:' .. key
  local before = redis.call('HGET', wanted, id)
  if before and tonumber(string.match(before, '^(%d+) ')) >= tonumber(token) then return false end
  redis.call('HSET', wanted, id, token .. ' ' .. payload)
  if redis.call('EXISTS', root .. ':claim:' .. id) == 1 then redis.call('HSET', root .. ':claim:' .. id, 'job', key) end
  return true
end

-- First in, first out by arrival. A job that expires within the hour counts as arrived an hour before
-- its expiry (earliest deadline first, where all other jobs have an hour): no job starves by it.
local function place_in_line(arrived)
  return tonumber(expires) > 0 and math.min(arrived, expires - 3600000) or arrived
end

-- A client's job is placed as if it had arrived so much later for each other work of the client that waits: it does not
-- keep clients with less work waiting, and starves no longer than that. Popular content has places of its own.
local LATER_FOR_EACH_MS = 10000
local function place_of_client(arrived)
  local asked = priority == 1 and redis.call('HMGET', root .. ':claim:' .. id, 'client', 'lane', 'place') or {}
  local order = arrived
  if asked[1] and asked[1] ~= '' then
    order = arrived + (tonumber(redis.call('HGET', root .. ':shares:' .. asked[2], asked[1]) or 1) - 1) * LATER_FOR_EACH_MS
  end
  return place_in_line(order) - (tonumber(asked[3] or 0) < 0 and POPULAR_BEFORE_MS or 0)
end

local function better(job)
  local better_lane = lane == 'fast' and job.lane == 'slow' and job.learnt ~= '1'
  local lives_longer = job.expires > 0 and (tonumber(expires) == 0 or tonumber(expires) > job.expires)
  local order = job.order
  if lives_longer then order = place_in_line(job.arrived) - (order < 0 and POPULAR_BEFORE_MS or 0) end
  if priority == 1 then order = math.min(order, place_of_client(now)) end
  return better_lane, lives_longer, order, priority < job.priority or better_lane or lives_longer or order < job.order
end

-- A waiter that need not obey robots.txt makes the waiting job ignore its gap.
local function excuse(job)
  if robots == '0' and job.robots == '1' and is_waiting(job) then set_job(job, 'robots', '0') end
end

-- Moves a waiting job to the place of this request, never to a slower one. A URL whose
-- signature holds for longer replaces the job's URL.
local function improve(d, job)
  local better_lane, lives_longer, order, any = better(job)
  if not any or not is_waiting(job) then return end
  local state, due = job.state, job.due
  take(d, job)
  set_job(job, 'priority', math.min(priority, job.priority), 'lane', better_lane and lane or job.lane, 'order', order)
  if lives_longer then set_job(job, 'url', url, 'detail', detail, 'expires', tonumber(expires)) end
  if state == 'later' then put_later(d, job, due) else put(d, job) end
end

-- URLs that were slow the last time, and slow domains, use the slow lane, so that the fast lane need not wait.
local function lane_by_experience(d)
  local slow_until = tonumber(redis.call('ZSCORE', 'fetch:{0}:slow', key) or 0)
  return (slow_until > now or d.took >= rules.slow_after_ms) and 'slow' or lane
end

local function join(found)
  local d = domain(found.scope)
  lane = lane_by_experience(d)
  local is_added = want(found)
  if is_added and not is_waiting(found) then set_job(found, 'version', found.version + 1) end
  improve(d, found)
  excuse(found)
  settle(d)
  return {'joined', found.state, expected_wait(d), rest_ms_of(d), is_added and '1' or '0'}
end

local queued_before = nil

-- The last tenth is reserved for jobs with waiting clients.
local function is_full(d)
  local share = priority == 1 and 1 or 0.9
  queued_before = queued_before or tonumber(redis.call('GET', 'fetch:{0}:queued') or 0)
  return waiting(d) >= rules.domain_backlog * share or queued_before + queued_more >= rules.backlog * share
end

local function add()
  if scope == '' then scope = scope_by_rule(host, site, path) end
  local d = domain_by_way(scope, egress)
  lane = lane_by_experience(d)
  if is_full(d) then return {'full', expected_wait(d)} end
  d.arrived = math.max(d.arrived + 0.001, now)
  local job = {key = key}
  set_job(job, 'scope', d.scope, 'counted', scope, 'egress', egress, 'host', host, 'site', site, 'path', path,
    'lane', lane, 'priority', priority, 'expected', tonumber(expected) or math.floor(d.took > 0 and d.took or rules.expected_ms), 'order', place_of_client(d.arrived),
    'expires', tonumber(expires), 'robots', robots, 'url', url, 'detail', detail, 'arrived', d.arrived,
    'attempts', 0, 'lapses', 0, 'version', 0)
  local wait = expected_wait(d)
  want(job)
  if tonumber(later_ms) > 0 then
    put_later(d, job, now + later_ms)
    wake_at = math.min(wake_at or now + later_ms, now + later_ms)
  else
    put(d, job)
  end
  settle(d)
  note_domain(d)
  return {'queued', d.scope, wait, rest_ms_of(d)}
end

local function enqueue(first)
  read_job(first)
  local found = job_of(key)
  if found then return join(found) end
  return add()
end

-- No half of the changes of an item are saved with the next one.
local function forget_loaded() loaded = {} end

local replies = {}
for first = 2, #ARGV, PARTS_OF_ONE do
  replies[#replies + 1] = reply_of(enqueue, forget_loaded, first)
end
count_queued()
wake()
bound_domains()
return replies
