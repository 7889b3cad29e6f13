-- What limits of a host, or of a registrable domain, count for. '' takes the rule back; 'host' stays, since it
-- makes an exception from the rule of the registrable domain.
-- ARGV: rules name kind   -> 1
if ARGV[3] == '' then
  redis.call('HDEL', 'fetch:scopes', ARGV[2])
else
  redis.call('HSET', 'fetch:scopes', ARGV[2], ARGV[3])
end
return 1
