-- Counts the parts of each living fetcher, over all egresses.
-- needs: domain
-- ARGV: rules   -> fetcher number ...
local reply = {}
for _, fetcher in ipairs(redis.call('ZRANGEBYSCORE', 'fetch:{0}:fetchers', now - rules.lease_ms, '+inf')) do
  reply[#reply + 1] = fetcher
  reply[#reply + 1] = redis.call('HGET', 'fetch:{0}:owned', fetcher) or '0'
end
return reply
