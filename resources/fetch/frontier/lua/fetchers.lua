-- How many fetchers have been heard of within a lease.
-- needs: domain
-- ARGV: rules
return redis.call('ZCOUNT', 'fetch:fetchers', now - rules.lease_ms, '+inf')
