-- Writes that a step gathers, to make those to one sorted set by one command, and all deletions. A script that gathers any
-- ends with write_gathered(), as does what reads them. A member is added to a set or removed once at the most until then.
local gather_add, gather_lower, gather_removal, gather_deletion, write_gathered
do
  local removed, added, lowered, deleted = {}, {}, {}, {}
  local has_begun = false

  local function append(lists, set, score, member)
    local list = lists[set] or {}
    local length = #list
    list[length + 1], list[length + 2], lists[set] = score, member, list
  end

  gather_add = function(set, score, member) append(added, set, score, member) end
  -- A member that is there already keeps the lower score.
  gather_lower = function(set, score, member) append(lowered, set, score, member) end
  -- With `begins`, the first of a step is made at once: a server that is out of memory refuses a script whose first
  -- write takes some.
  gather_removal = function(set, member, begins)
    if begins and not has_begun then
      has_begun = true
      redis.call('ZREM', set, member)
      return
    end
    local list = removed[set]
    if list then list[#list + 1] = member else removed[set] = {member} end
  end
  gather_deletion = function(key, begins)
    if begins and not has_begun then
      has_begun = true
      redis.call('DEL', key)
    else
      deleted[#deleted + 1] = key
    end
  end

  write_gathered = function()
    for set, members in pairs(removed) do redis.call('ZREM', set, unpack(members)) end
    for set, scored in pairs(added) do redis.call('ZADD', set, unpack(scored)) end
    for set, scored in pairs(lowered) do redis.call('ZADD', set, 'LT', unpack(scored)) end
    if deleted[1] then redis.call('DEL', unpack(deleted)) end
    removed, added, lowered, deleted = {}, {}, {}, {}
  end
end
