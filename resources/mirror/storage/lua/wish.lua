-- Asks a machine to upload what it holds. Once more is the same.
-- KEYS: its list. ARGV: when (s), the wish, how long the list is kept (s).
redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[2])
return redis.call('EXPIRE', KEYS[1], ARGV[3])
