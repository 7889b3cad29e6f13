-- Renews the leases of several jobs.
-- needs: domain
-- ARGV: rules | key token, for each   -> the keys of lost jobs
local lost = {}
for place = 2, #ARGV, 2 do
  local key, token = ARGV[place], ARGV[place + 1]
  local held = redis.call('HMGET', 'fetch:{0}:job:' .. key, 'token', 'state')
  if held[1] == token and (held[2] == 'running' or held[2] == 'holding' or held[2] == 'ending') then
    redis.call('ZADD', 'fetch:{0}:leases', now + rules.lease_ms, key)
  else
    lost[#lost + 1] = key
  end
end
return lost
