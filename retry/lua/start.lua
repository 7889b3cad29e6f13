-- A queued claim becomes a running one. Of several copies of the work only one wins.
-- The nonce names the copy: one whose reply was lost may ask again.
-- KEYS: claim claims leases durations   ARGV: work token nonce lease_ms default_ms   -> 1 | 0
local claim, claims, leases, durations = unpack(KEYS)
local held = redis.call('HMGET', claim, 'token', 'state', 'lane', 'kind', 'starter')
if held[1] ~= ARGV[2] then return 0 end
if held[2] ~= 'queued' then return held[5] == ARGV[3] and 1 or 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local duration = tonumber(redis.call('HGET', durations, held[4]) or ARGV[5])
redis.call('HSET', claim, 'state', 'running', 'starter', ARGV[3], 'since', string.format('%.0f', now),
  'expected', string.format('%.0f', now + duration))
redis.call('ZREM', 'retry:queued:' .. held[3], ARGV[1])
redis.call('ZREM', claims, ARGV[1])
redis.call('ZADD', leases, now + ARGV[4], ARGV[1])
return 1
