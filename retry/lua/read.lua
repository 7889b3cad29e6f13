-- Returns a content's record and its remaining time.   KEYS: content   ARGV: "body" | ""   -> pttl meta body changed
local held = redis.call('HMGET', KEYS[1], 'meta', ARGV[1] == 'body' and 'body' or 'none', 'changed')
return {redis.call('PTTL', KEYS[1]), held[1], held[2], held[3]}
