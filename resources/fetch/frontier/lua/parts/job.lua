-- Jobs: in the queues of their domain, in flight, or dead.
local NUMBERS = {'priority', 'expected', 'order', 'expires', 'attempts', 'lapses', 'version', 'claimed', 'beside',
  'slot_next', 'slot_before', 'due', 'arrived', 'lapsed'}

local function job_name(key) return 'fetch:{0}:job:' .. key end

local function job_of(key)
  local job = read_hash(job_name(key))
  if not next(job) then return nil end
  for place = 1, #NUMBERS do
    local name = NUMBERS[place]
    local value = job[name]
    if value then job[name] = value + 0 end
  end
  job.key = key
  return job
end

-- The fields that are needed of a job that ends with its request, as nearly all do.
local LAST, LAST_NUMBERS = {'token', 'state', 'scope', 'lane', 'paced', 'claimed', 'beside', 'version'}, 6

local function job_at_its_end(key)
  local job, values = {key = key}, redis.call('HMGET', job_name(key), unpack(LAST))
  if not values[1] then return nil end
  for place = 1, #LAST do
    local value = values[place]
    job[LAST[place]] = place >= LAST_NUMBERS and value and value + 0 or value
  end
  return job
end

local function set_job(job, ...)
  local given = {...}
  for place = 1, #given, 2 do job[given[place]] = given[place + 1] end
  redis.call('HSET', job_name(job.key), ...)
end

-- In a queue, popular content has places of its own, which are negative. It takes turns with all other content, job by
-- job: each has half of the turns.
local POPULAR_BEFORE_MS = 2 ^ 42

local function queue_of(job) return 'fetch:{0}:jobs:' .. job.scope .. ':' .. job.lane .. ':' .. job.priority end

local queued_more, left_more = 0, {fast = 0, slow = 0}

-- Adds the changes of this call to the number of queued jobs, and to the remaining work of each lane in ms. That one
-- starts anew when no job is left: a lost count would stay for good.
local function count_queued()
  local queued = queued_more ~= 0 and redis.call('INCRBY', 'fetch:{0}:queued', queued_more)
  for _, lane in ipairs(LANES) do
    if left_more[lane] ~= 0 then redis.call('HINCRBY', 'fetch:{0}:left', lane, left_more[lane]) end
    left_more[lane] = 0
  end
  if queued == 0 then redis.call('DEL', 'fetch:{0}:left') end
  queued_more = 0
end

-- Puts a job into its queue, at its place: earlier jobs, and those that expire soon, are ahead.
local function put(d, job)
  redis.call('ZADD', queue_of(job), job.order, job.key)
  local count, sum = FIELDS[job.lane][job.priority], FIELDS[job.lane].sum
  d[count], d[sum] = d[count] + 1, d[sum] + job.expected
  left_more[job.lane] = left_more[job.lane] + whole(job.expected)
  if job.expires > 0 then redis.call('ZADD', 'fetch:{0}:expiring', job.expires, job.key) end
  queued_more = queued_more + 1
  if job.state ~= 'queued' then set_job(job, 'state', 'queued') end
end

local function put_later(d, job, due)
  redis.call('ZADD', 'fetch:{0}:later', due, job.key)
  d.later = d.later + 1
  if job.expires > 0 then redis.call('ZADD', 'fetch:{0}:expiring', job.expires, job.key) end
  queued_more = queued_more + 1
  set_job(job, 'state', 'later', 'due', due)
end

-- Counts a job that has left its queue.
local function leave_queue(d, job)
  local count, sum = FIELDS[job.lane][job.priority], FIELDS[job.lane].sum
  d[count], d[sum] = d[count] - 1, d[sum] - job.expected
  left_more[job.lane] = left_more[job.lane] - whole(job.expected)
  if job.expires > 0 then redis.call('ZREM', 'fetch:{0}:expiring', job.key) end
  queued_more = queued_more - 1
end

-- Takes a waiting job out of its queue.
local function take(d, job)
  if job.state == 'later' then
    redis.call('ZREM', 'fetch:{0}:later', job.key)
    d.later = d.later - 1
    if job.expires > 0 then redis.call('ZREM', 'fetch:{0}:expiring', job.key) end
    queued_more = queued_more - 1
  else
    redis.call('ZREM', queue_of(job), job.key)
    leave_queue(d, job)
  end
end

local function is_waiting(job) return job.state == 'queued' or job.state == 'later' end

local function leave_flight(d, job)
  d.in_flight = d.in_flight - 1
  if d.robots_job == job.key then d.robots_job = '' end
  if job.lane == 'slow' then d.slow_in_flight = d.slow_in_flight - 1 end
end

-- Makes a job a dead one, which fails without a request. The next claim hands it out.
local function doom(job, why)
  redis.call('ZADD', 'fetch:{0}:doomed', now, job.key)
  set_job(job, 'state', 'doomed', 'why', why)
  wake_at = math.min(wake_at or now, now)
end

-- Ends the job, with write_gathered().
local function forget(job)
  gather_deletion(job_name(job.key))
  gather_deletion('fetch:{0}:wanted:' .. job.key)
  gather_removal('fetch:{0}:leases', job.key)
end

-- Tokens grow even when the server lost its data.
local last_token = nil

local function new_token()
  last_token = last_token or tonumber(redis.call('GET', 'fetch:{0}:token') or 0)
  last_token = math.max(last_token + 1, time[1] * 1000000 + time[2])
  return string.format('%.0f', last_token)
end

local function keep_last_token()
  if last_token then redis.call('SET', 'fetch:{0}:token', string.format('%.0f', last_token)) end
end
