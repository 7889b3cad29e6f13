-- A running claim waits for its turn again, with the same token: its work could not be done yet.
-- KEYS: claim claims leases   ARGV: work token wait_ms default_ms   -> 1 | 0 (somebody else holds the claim by now)
local claim, claims, leases = unpack(KEYS)
local work, token, wait = ARGV[1], ARGV[2], tonumber(ARGV[3])
local held = redis.call('HMGET', claim, 'token', 'state', 'lane', 'kind')
if held[1] ~= token or held[2] ~= 'running' then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local mean = tonumber(redis.call('GET', 'retry:duration:' .. held[4]) or ARGV[4])
local function whole(x) return string.format('%.0f', x) end
redis.call('HSET', claim, 'state', 'queued', 'since', whole(now), 'expected', whole(now + wait + mean))
redis.call('ZREM', leases, work)
redis.call('ZADD', claims, now + math.min(60000, math.max(5000, 2 * (wait + mean))), work)
redis.call('ZADD', 'retry:queued:' .. held[3], now, work)
return 1
