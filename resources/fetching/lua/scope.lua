-- What limits of a host, or of a registrable domain, count for.
-- ARGV: rules name kind   -> 1
if ARGV[3] == 'host' then
  redis.call('HDEL', 'fetch:scopes', ARGV[2])
else
  redis.call('HSET', 'fetch:scopes', ARGV[2], ARGV[3])
end
return 1
