-- Counts fetchers and machines, and names those whose network is away by an egress, for people. Changes nothing.
-- needs: domain line network
-- ARGV: rules egress   -> fetchers machines away_machine ...
local machines, number, reply = {}, 0, {}
local fetchers = redis.call('ZRANGEBYSCORE', 'fetch:{0}:fetchers', now - rules.lease_ms, '+inf')
for _, fetcher in ipairs(fetchers) do
  local machine = string.match(fetcher, '^(.*):') or fetcher
  if not machines[machine] then
    machines[machine], number = true, number + 1
    if is_away(machine, ARGV[2]) then reply[#reply + 1] = machine end
  end
end
return {tostring(#fetchers), tostring(number), unpack(reply)}
