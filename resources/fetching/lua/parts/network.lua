-- Our own network: hosts that answered before and that one machine cannot reach, several at once and none
-- that answers meanwhile, are not what is the matter.
local function network_name(machine) return 'fetch:network:' .. machine end
local function unreachable_name(machine) return 'fetch:unreachable:' .. machine end

local function network_works(machine)
  redis.call('DEL', network_name(machine), unreachable_name(machine))
end

local function is_away(machine)
  local since = redis.call('HGET', network_name(machine), 'since')
  return since and now - since <= rules.outage_ms
end

-- Whether it is our network that is away. What was held against the hosts until that is clear is forgiven.
local function on_unreachable(machine, d)
  if is_away(machine) then return true end
  if d.ok_at <= now - rules.outage_ms then return false end
  local hosts = unreachable_name(machine)
  redis.call('ZADD', hosts, now, d.scope)
  redis.call('ZREMRANGEBYSCORE', hosts, '-inf', now - rules.outage_window_ms)
  redis.call('PEXPIRE', hosts, rules.outage_window_ms)
  if redis.call('ZCARD', hosts) < rules.outage_hosts then return false end
  for _, scope in ipairs(redis.call('ZRANGE', hosts, 0, -1)) do
    forgive(domain(scope))
    if scope ~= d.scope then settle(domain(scope)) end
  end
  redis.call('HSET', network_name(machine), 'since', now, 'try_at', now + rules.outage_try_ms)
  redis.call('PEXPIRE', network_name(machine), 2 * rules.outage_ms)
  return true
end
