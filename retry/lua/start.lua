-- A queued claim becomes a running one. Of several copies of the work only one wins.
-- KEYS: claim claims durations   ARGV: work token lease_ms default_ms   -> 1 | 0
local claim, claims, durations = unpack(KEYS)
local held = redis.call('HMGET', claim, 'token', 'state', 'lane', 'kind')
if held[1] ~= ARGV[2] or held[2] ~= 'queued' then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local duration = tonumber(redis.call('HGET', durations, held[4]) or ARGV[4])
redis.call('HSET', claim, 'state', 'running', 'since', string.format('%.0f', now),
  'expected', string.format('%.0f', now + duration))
redis.call('ZREM', 'retry:queued:' .. held[3], ARGV[1])
redis.call('ZADD', claims, now + ARGV[3], ARGV[1])
return 1
