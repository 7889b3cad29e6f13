-- Returns the state of a piece of work, and claims it in the modes begin and refresh.
-- Every look at claimed work is noted in its claim (`asked`): the work is still wanted.
-- KEYS: claim done failure token claims retry:queued:<lane>
-- ARGV: work kind mode("look"|"begin"|"refresh") lane limit workers spec default_ms | faster lanes
-- -> failed status detail wait_ms | done outcome wait_ms | claimed token wait_ms
--    | full wait_ms | begun token wait_ms | promoted token wait_ms | unknown
local claim, done, failure, counter, claims, queued = unpack(KEYS)
local work, kind, mode, lane = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local limit, workers = tonumber(ARGV[5]), tonumber(ARGV[6])
local spec, default_ms = ARGV[7], tonumber(ARGV[8])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function whole(x) return string.format('%.0f', x) end
local function mean(name) return tonumber(redis.call('GET', 'retry:duration:' .. name) or default_ms) end
local function expected_wait(ahead) return ahead * mean(lane) / workers + mean(kind) end
local function sweep_after(wait)
  redis.call('ZADD', claims, now + math.min(60000, math.max(5000, 2 * wait)), work)
end

local function is_slower(other)
  for place = 9, #ARGV do
    if ARGV[place] == other then return false end
  end
  return other ~= lane
end

local failed = redis.call('HMGET', failure, 'until', 'status', 'detail')
if failed[1] and tonumber(failed[1]) > now then
  return {'failed', failed[2], failed[3], whole(failed[1] - now)}
end

local held = redis.call('HMGET', claim, 'token', 'state', 'lane', 'expected', 'asked')
if held[1] then
  -- Once a second is enough. A server that takes no writes must still answer.
  if now - tonumber(held[5] or 0) >= 1000 then redis.pcall('HSET', claim, 'asked', whole(now)) end
  local wait = math.max(0, tonumber(held[4]) - now)
  local seems_lost = mode == 'begin' and held[3] == lane and now > tonumber(held[4]) + 1000
  if mode == 'look' or held[2] ~= 'queued' or not (seems_lost or is_slower(held[3])) then
    return {'claimed', held[1], whole(wait)}
  end
  -- Wanted work in a slower lane, or work whose message seems lost: a second copy, with the same token.
  local ahead = redis.call('ZCARD', queued)
  if ahead >= limit then return {'claimed', held[1], whole(wait)} end
  wait = expected_wait(ahead)
  redis.call('ZREM', 'retry:queued:' .. held[3], work)
  redis.call('ZADD', queued, now, work)
  redis.call('HSET', claim, 'lane', lane, 'expected', whole(now + wait))
  sweep_after(wait)
  return {'promoted', held[1], whole(wait)}
end

local mark = redis.call('HMGET', done, 'outcome', 'until')
local outcome, left = mark[1], tonumber(mark[2] or 0) - now
if left > 0 and (mode == 'look' or (mode == 'begin' and outcome == 'stored')) then
  return {'done', outcome, whole(left)}
end
if mode == 'look' then return {'unknown'} end

local ahead = redis.call('ZCARD', queued)
local wait = expected_wait(ahead)
if ahead >= limit then return {'full', whole(wait)} end

local token = math.max(tonumber(redis.call('GET', counter) or 0) + 1, time[1] * 1000000 + time[2])
redis.call('SET', counter, whole(token))
redis.call('HSET', claim, 'token', whole(token), 'state', 'queued', 'lane', lane, 'kind', kind, 'since', whole(now),
  'asked', whole(now), 'expected', whole(now + wait), 'spec', spec, 'lapses', 0)
redis.call('ZADD', queued, now, work)
sweep_after(wait)
return {'begun', whole(token), whole(wait)}
