-- A content's record and how long it stays.   KEYS: content   ARGV: "body" | ""   -> pttl meta body
local held = redis.call('HMGET', KEYS[1], 'meta', ARGV[1] == 'body' and 'body' or 'none')
return {redis.call('PTTL', KEYS[1]), held[1], held[2]}
