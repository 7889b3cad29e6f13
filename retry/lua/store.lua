-- Stores content, unless content with a newer token is there. The same body keeps its time of change.
-- KEYS: content   ARGV: token expire_ms meta body digest now   -> 1 | 0
local held = redis.call('HMGET', KEYS[1], 'token', 'digest', 'changed')
if held[1] and tonumber(held[1]) > tonumber(ARGV[1]) then return 0 end
local changed = held[2] == ARGV[5] and held[3] or ARGV[6]
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'meta', ARGV[3], 'body', ARGV[4], 'digest', ARGV[5], 'changed', changed)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
