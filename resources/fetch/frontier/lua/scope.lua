-- Sets the scope that limits of a host, or of a registrable domain, count for. '' removes the rule; 'host' is kept,
-- since it is an exception from the rule of the registrable domain.
-- ARGV: rules name kind   -> 1
if ARGV[3] == '' then
  redis.call('HDEL', 'fetch:{0}:scopes', ARGV[2])
else
  redis.call('HSET', 'fetch:{0}:scopes', ARGV[2], ARGV[3])
end
return 1
