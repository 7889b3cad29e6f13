-- Counts the fetchers that signed in within a lease.
-- needs: domain
-- ARGV: rules
return redis.call('ZCOUNT', 'fetch:{0}:fetchers', now - rules.lease_ms, '+inf')
