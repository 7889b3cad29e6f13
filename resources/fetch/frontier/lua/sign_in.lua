-- A fetcher is there. Those not heard of for as long as a lease lasts are forgotten.
-- needs: domain
-- ARGV: rules worker
redis.call('ZADD', 'fetch:fetchers', now, ARGV[2])
redis.call('ZREMRANGEBYSCORE', 'fetch:fetchers', '-inf', now - rules.lease_ms)
return 1
