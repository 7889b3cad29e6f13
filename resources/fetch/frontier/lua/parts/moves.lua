-- Moves domains to the lines of their owners, a few in each call: those of parts that have got another owner, and those
-- that were placed while there was none.
local move_domain, move_few
do
  local MOST_MOVED = 32

  local function nobodys_lines(egresses)
    local lines = {}
    for _, egress in ipairs(egresses) do
      for _, lane in ipairs(LANES) do
        for priority = 1, 3 do
          lines[#lines + 1] = line_of('due', lane, priority, way_of('', egress))
          lines[#lines + 1] = line_of('waiting', lane, priority, way_of('', egress))
        end
      end
    end
    return lines
  end

  -- Moves a domain to the lines of its owner. Among the shortest jobs it keeps its place.
  move_domain = function(d)
    local places = {}
    for _, lane in ipairs(LANES) do
      local short = short_line(d.held[FIELDS[lane].at])
      places[lane] = short and redis.call('ZSCORE', short, d.scope)
    end
    settle(d)
    for lane, place in pairs(places) do
      local short = short_line(d[FIELDS[lane].at])
      if place and short then redis.call('ZADD', short, 'LT', place, d.scope) end
    end
    wake_at = now  -- its owner may sleep
  end

  local function move(scopes)
    for _, scope in ipairs(scopes) do
      local d = domain(scope)
      move_domain(d)
      if is_owned(d.at_fast) or is_owned(d.at_slow) then
        redis.call('SADD', 'fetch:{0}:standing:' .. part_of(d), scope)
      end
    end
  end

  local function move_from_lines(lines)
    spread_parts()  -- the egress may be new
    for _, line in ipairs(lines) do
      local scopes = redis.call('ZRANGE', line, 0, MOST_MOVED - 1)
      move(scopes)
      -- What has another place on record was left behind here.
      if scopes[1] then redis.call('ZREM', line, unpack(scopes)) end
    end
  end

  local function move_handed_over()
    local left, part = MOST_MOVED, redis.call('SRANDMEMBER', 'fetch:{0}:moved')
    while part and left > 0 do
      local scopes = redis.call('SPOP', 'fetch:{0}:moving:' .. part, left)
      move(scopes)
      left = left - #scopes - 1
      if redis.call('EXISTS', 'fetch:{0}:moving:' .. part) == 0 then redis.call('SREM', 'fetch:{0}:moved', part) end
      part = redis.call('SRANDMEMBER', 'fetch:{0}:moved')
    end
  end

  -- True if there is more to move.
  move_few = function(egresses)
    local lines = nobodys_lines(egresses)
    if redis.call('EXISTS', 'fetch:{0}:moved', unpack(lines)) == 0 then return false end
    move_handed_over()
    move_from_lines(lines)
    return redis.call('EXISTS', 'fetch:{0}:moved', unpack(lines)) > 0
  end
end
