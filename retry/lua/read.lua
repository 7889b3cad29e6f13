-- Returns a content's record and its remaining time.   KEYS: content   ARGV: "body" | ""   -> pttl meta body
local held = redis.call('HMGET', KEYS[1], 'meta', ARGV[1] == 'body' and 'body' or 'none')
return {redis.call('PTTL', KEYS[1]), held[1], held[2]}
