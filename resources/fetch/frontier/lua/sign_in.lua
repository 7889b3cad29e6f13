-- Notes that a fetcher is alive. Fetchers silent for a whole lease are forgotten.
-- needs: domain
-- ARGV: rules fetcher
redis.call('ZADD', 'fetch:{0}:fetchers', now, ARGV[2])
redis.call('ZREMRANGEBYSCORE', 'fetch:{0}:fetchers', '-inf', now - rules.lease_ms)
return 1
