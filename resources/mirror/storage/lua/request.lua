-- Requests an upload of a machine. A second call changes nothing.
-- KEYS: the machine's list. ARGV: now (s), the upload request, the time for which the list is kept (s).
redis.call('ZADD', KEYS[1], 'NX', ARGV[1], ARGV[2])
return redis.call('EXPIRE', KEYS[1], ARGV[3])
