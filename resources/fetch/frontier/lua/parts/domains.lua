-- The domains on record, at most so many: beyond that the oldest are forgotten. Not those with jobs, or with limits
-- that an admin has set; and those that rest only if all of the oldest do.
local LOOKED_AT = 8

local function is_in_use(d)
  return waiting(d) + d.in_flight > 0 or has_limits(d) or (d.block_cause == 'admin' and d.block_until > now)
end

local function forget_domain(d)
  redis.call('DEL', 'fetch:{0}:domain:' .. d.scope)
  redis.call('ZREM', 'fetch:{0}:domains', d.scope)
  redis.call('ZREM', 'fetch:{0}:stalls', d.scope)
  loaded[d.scope] = nil
end

local function forget_oldest()
  local resting, number = {}, 0
  for _, scope in ipairs(redis.call('ZRANGE', 'fetch:{0}:domains', 0, LOOKED_AT - 1)) do
    local d = domain(scope)
    if is_in_use(d) then
      redis.call('ZADD', 'fetch:{0}:domains', now, scope)
    elseif math.max(d.block_until, d.circuit_until) > now then
      resting[#resting + 1] = d
    else
      forget_domain(d)
      number = number + 1
    end
  end
  if number == 0 and resting[1] then forget_domain(resting[1]) end
end

local noted = 0  -- domains, since the last bound_domains()

-- Notes the domain as the latest. A script that notes any ends with bound_domains().
local function note_domain(d)
  redis.call('ZADD', 'fetch:{0}:domains', now, d.scope)
  noted = noted + 1
end

local function bound_domains()
  redis.call('ZREMRANGEBYSCORE', 'fetch:{0}:domains', '-inf', now - rules.kept_ms)
  for _ = 1, noted do
    if redis.call('ZCARD', 'fetch:{0}:domains') <= rules.most_domains then break end
    forget_oldest()
  end
  noted = 0
end
