-- Renews the lease of a running claim.   KEYS: root   ARGV: work token lease_ms   -> 1 | 0
local root = KEYS[1]
local held = redis.call('HMGET', root .. ':claim:' .. ARGV[1], 'token', 'state')
if held[1] ~= ARGV[2] or held[2] ~= 'running' then return 0 end
local time = redis.call('TIME')
redis.call('ZADD', root .. ':leases', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3], ARGV[1])
return 1
