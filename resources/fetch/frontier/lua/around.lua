-- Counts fetchers and machines, names the owner of a domain, and the machines whose network is away by its egress, for
-- people. Changes nothing.
-- needs: retry.gathered domain owners line network
-- ARGV: rules egress scope('' for none)   -> fetchers machines owner away_machine ...
local egress, scope = ARGV[2], ARGV[3]
local machines, number, away = {}, 0, {}
local fetchers = redis.call('ZRANGEBYSCORE', 'fetch:{0}:fetchers', now - rules.lease_ms, '+inf')
for _, fetcher in ipairs(fetchers) do
  local machine = string.match(fetcher, '^(.*):') or fetcher
  if not machines[machine] then
    machines[machine], number = true, number + 1
    if is_away(machine, egress) then away[#away + 1] = machine end
  end
end
local d = domain(scope)
d.egress = egress
local owner = scope ~= '' and owner_of(d) or ''
return {tostring(#fetchers), tostring(number), fetchers[1] and owner or '', unpack(away)}
