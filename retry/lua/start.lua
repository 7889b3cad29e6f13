-- A queued claim becomes a running one. Of several copies of the work only one wins. Where the lane
-- is long and nobody has asked for the work in a while, it ends at once instead, as `skipped`.
-- The nonce names the copy: one whose reply was lost may ask again.
-- KEYS: claim done claims leases retry:started retry:swept
-- ARGV: work token nonce lease_ms default_ms channel done_ms fence_ms skip_ms backlog_ms
--       | lane workers, for each lane that skips
-- -> 1 started | 2 skipped | 0 neither
local claim, done, claims, leases, started, swept = unpack(KEYS)
local work, token, nonce = ARGV[1], ARGV[2], ARGV[3]
local skip_ms, backlog_ms = tonumber(ARGV[9]), tonumber(ARGV[10])
local held = redis.call('HMGET', claim, 'token', 'state', 'lane', 'kind', 'starter', 'asked', 'aged')
if held[1] ~= token then return 0 end
if held[2] ~= 'queued' then return held[5] == nonce and 1 or 0 end
local lane, kind, asked, aged = held[3], held[4], tonumber(held[6]), held[7]
local queued = 'retry:queued:' .. lane
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function whole(x) return string.format('%.0f', x) end
local function mean(name) return tonumber(redis.call('GET', 'retry:duration:' .. name) or ARGV[5]) end

local function workers_of_a_lane_that_skips()
  for place = 11, #ARGV, 2 do
    if ARGV[place] == lane then return tonumber(ARGV[place + 1]) end
  end
end

-- Passes of the sweeper that have followed one another for as long show that this server was there
-- to be asked: after an outage those who wait are given the time to ask again.
local function could_have_been_asked()
  local since = tonumber(redis.call('GET', swept))
  return since and now - since > skip_ms
end

local function is_unwanted()
  local workers = workers_of_a_lane_that_skips()
  return skip_ms > 0 and workers and not aged and asked and now - asked > skip_ms and could_have_been_asked()
    and redis.call('ZCARD', queued) * mean(lane) / workers > backlog_ms
end

local unwanted = is_unwanted()
redis.call('ZREM', queued, work)
redis.call('ZREM', claims, work)
redis.call('HSET', started, lane, whole(now))
if unwanted then
  redis.call('DEL', claim)
  redis.call('HSET', done, 'token', token, 'outcome', 'skipped', 'until', whole(now + ARGV[7]))
  redis.call('PEXPIRE', done, ARGV[8])
  redis.call('PUBLISH', ARGV[6], 'skipped ' .. work)
  return 2
end
redis.call('HSET', claim, 'state', 'running', 'starter', nonce, 'since', whole(now),
  'expected', whole(now + mean(kind)))
redis.call('ZADD', leases, now + ARGV[4], work)
return 1
