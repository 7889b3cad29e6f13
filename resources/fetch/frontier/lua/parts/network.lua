-- Our own network, as one machine sees it by one egress: it is away if several hosts that answered before
-- cannot be reached at once, and none answers meanwhile.
local function network_name(machine, egress) return 'fetch:{0}:network:' .. via(machine, egress) end
local function unreachable_name(machine, egress) return 'fetch:{0}:unreachable:' .. via(machine, egress) end
local function untold_name(machine, egress) return 'fetch:{0}:untold:' .. via(machine, egress) end

local working = {}  -- egresses of which this step knows that the network works

-- True if it may have been away.
local function network_works(machine, egress)
  if working[egress] then return false end
  working[egress] = true
  local names = {network_name(machine, egress), unreachable_name(machine, egress), untold_name(machine, egress)}
  return redis.call('DEL', unpack(names)) > 0
end

-- Adds a member to a set of recent ones: those within the window.
local function note_recent(name, member)
  working = {}
  redis.call('ZADD', name, now, member)
  redis.call('ZREMRANGEBYSCORE', name, '-inf', now - rules.outage_window_ms)
  redis.call('PEXPIRE', name, rules.outage_window_ms)
end

local function is_away(machine, egress)
  local since = redis.call('HGET', network_name(machine, egress), 'since')
  return since and now - since <= rules.outage_ms
end

local function goes_away(machine, egress)
  if is_away(machine, egress) then return end
  working = {}
  local network = network_name(machine, egress)
  redis.call('HSET', network, 'since', now, 'try_at', now + rules.outage_try_ms)
  redis.call('PEXPIRE', network, 2 * rules.outage_ms)
end
