-- Counts fetchers and machines, and names those whose network is away by an egress, for people. Changes nothing.
-- needs: domain line network
-- ARGV: rules egress   -> fetchers machines away_machine ...
local machines, number, reply = {}, 0, {}
local workers = redis.call('ZRANGEBYSCORE', 'fetch:fetchers', now - rules.lease_ms, '+inf')
for _, worker in ipairs(workers) do
  local machine = string.match(worker, '^(.*):') or worker
  if not machines[machine] then
    machines[machine], number = true, number + 1
    if is_away(machine, ARGV[2]) then reply[#reply + 1] = machine end
  end
end
return {tostring(#workers), tostring(number), unpack(reply)}
