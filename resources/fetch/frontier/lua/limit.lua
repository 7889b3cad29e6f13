-- Sets an admin's limits of a domain, for all its egresses or for one (`<scope> via <egress>`).
-- They hold from the next claim on, in all fetchers.
-- needs: retry.gathered domain owners line
-- ARGV: rules scope | name value, for each: delay cap bytes ('' as learnt), paused (1 | 0),
--       blocked (ms from now), unblock   -> 1
local function set(d, name, value)
  if name == 'blocked' then
    d.block_until, d.block_cause = now + value, 'admin'
  elseif name == 'unblock' then
    d.block_until, d.block_cause, d.bytes_until, d.throttles = 0, '', 0, 0
    d.failures, d.opens, d.opened_at, d.circuit_until, d.trouble_since = 0, 0, 0, 0, 0
    d.next = math.min(d.next, now)
    redis.call('ZREM', 'fetch:{0}:stalls', d.scope)
  else
    d['set_' .. name] = tonumber(value) or ''
    if name == 'delay' and tonumber(value) then d.next = math.min(d.next, now + value) end
  end
end

local function set_all(d)
  for place = 3, #ARGV, 2 do set(d, ARGV[place], ARGV[place + 1]) end
  settle(d)
end

local plain, way = string.match(ARGV[2], '^(.*) via ([^ ]+)$')
set_all(domain_by_way(plain or ARGV[2], way or ''))
for _, egress in ipairs(redis.call('SMEMBERS', 'fetch:{0}:egresses')) do
  local d = domain(via(ARGV[2], egress))
  if next(d.held) then set_all(d) end  -- a later egress copies the limits
end
redis.call('ZADD', 'fetch:{0}:domains', 'NX', now, ARGV[2])
wake()
return 1
