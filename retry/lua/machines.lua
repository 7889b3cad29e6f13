-- Notes that a machine was heard of, and forgets those that were not lately, by the clock that all machines share.
-- KEYS: the sorted set   ARGV: machine (empty: none) seconds   -> machines
local now = tonumber(redis.call('TIME')[1])
if ARGV[1] ~= '' then redis.call('ZADD', KEYS[1], now, ARGV[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. now, '+inf')  -- the clock was set back
redis.call('EXPIRE', KEYS[1], ARGV[2])
return redis.call('ZRANGE', KEYS[1], 0, -1)
