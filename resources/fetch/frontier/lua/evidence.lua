-- Refusals by hosts of a registrable domain, the latest first.   ARGV: site   -> list of JSON
return redis.call('LRANGE', 'fetch:{0}:evidence:' .. ARGV[1], 0, -1)
