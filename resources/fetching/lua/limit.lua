-- What an admin sets for a domain. It holds from the next claim on, in all fetchers.
-- needs: domain line
-- ARGV: rules scope | name value, for each: delay cap bytes ('' as learnt), paused (1 | 0),
--       blocked (ms from now), unblock   -> 1
local d = domain(ARGV[2])
for place = 3, #ARGV, 2 do
  local name, value = ARGV[place], ARGV[place + 1]
  if name == 'blocked' then
    d.block_until, d.block_cause = now + value, 'admin'
  elseif name == 'unblock' then
    d.block_until, d.block_cause, d.bytes_until, d.throttles = 0, '', 0, 0
    d.failures, d.opens, d.opened_at, d.circuit_until, d.trouble_since = 0, 0, 0, 0, 0
    d.next = math.min(d.next, now)
    redis.call('ZREM', 'fetch:stalls', d.scope)
  else
    d['set_' .. name] = tonumber(value) or ''
    if name == 'delay' and tonumber(value) then d.next = math.min(d.next, now + value) end
  end
end
settle(d)
redis.call('ZADD', 'fetch:domains', 'NX', now, d.scope)
wake()
return 1
