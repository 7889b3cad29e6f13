-- Stores content, unless content with a newer token is there.
-- KEYS: content   ARGV: token expire_ms meta body   -> 1 | 0
local held = redis.call('HGET', KEYS[1], 'token')
if held and tonumber(held) > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'meta', ARGV[3], 'body', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
