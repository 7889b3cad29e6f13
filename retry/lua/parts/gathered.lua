-- Writes that a step gathers, to make those to one sorted set by one command, and all deletions. A script that gathers any
-- ends with write_gathered(), as does what reads them. A member is added to a set or removed once at the most until then.
local gather_add, gather_lower, gather_removal, gather_deletion, write_gathered
do
  local removed, added, lowered, deleted = {}, {}, {}, {}

  local function append(lists, set, value, further)
    local list = lists[set]
    if not list then
      list = {}
      lists[set] = list
    end
    local length = #list
    list[length + 1], list[length + 2] = value, further
  end

  gather_add = function(set, score, member) append(added, set, score, member) end
  -- A member that is there already keeps the lower score.
  gather_lower = function(set, score, member) append(lowered, set, score, member) end
  gather_removal = function(set, member) append(removed, set, member) end
  gather_deletion = function(key) deleted[#deleted + 1] = key end

  write_gathered = function()
    for set, members in pairs(removed) do redis.call('ZREM', set, unpack(members)) end
    for set, scored in pairs(added) do redis.call('ZADD', set, unpack(scored)) end
    for set, scored in pairs(lowered) do redis.call('ZADD', set, 'LT', unpack(scored)) end
    if deleted[1] then redis.call('DEL', unpack(deleted)) end
    removed, added, lowered, deleted = {}, {}, {}, {}
  end
end
