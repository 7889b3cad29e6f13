-- Renews the lease of a running claim.   KEYS: claim leases   ARGV: work token lease_ms   -> 1 | 0
local held = redis.call('HMGET', KEYS[1], 'token', 'state')
if held[1] ~= ARGV[2] or held[2] ~= 'running' then return 0 end
local time = redis.call('TIME')
redis.call('ZADD', KEYS[2], time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[3], ARGV[1])
return 1
