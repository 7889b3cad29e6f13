-- Loans: a domain that has waited a while for a slot of its owner goes to a fetcher that has nothing else to do, until its
-- jobs are done. One with requests in flight stays: no host is asked from two addresses.
local LATE_MS, MOST_LOOKED_AT = 1000, 4

-- The owners that do not sleep: these may be out of slots. Those that sleep are about to wake for what is due.
local function busy_others(fetchers, fetcher)
  local sleeps, busy = {}, {}
  for _, one in ipairs(redis.call('ZRANGEBYSCORE', 'fetch:{0}:idle', now, '+inf')) do sleeps[one] = true end
  for _, one in ipairs(fetchers) do
    if one ~= fetcher and not sleeps[one] then busy[#busy + 1] = one end
  end
  return busy
end

-- The time since which a domain has been due that stands in this line of due ones.
local function due_since(d, lane, line)
  local place = tonumber(redis.call('ZSCORE', short_line(line), d.scope) or now)
  return place - (short_place(d, lane) - now)
end

-- The late domains of a line: of due ones those with the most left, of waiting ones those that came first.
local function late_ones(lane, priority, way)
  local late, line, field = {}, line_of('due', lane, priority, way), FIELDS[lane].at
  for _, scope in ipairs(redis.call('ZREVRANGE', line, 0, MOST_LOOKED_AT - 1)) do
    local d = domain(scope)
    if d[field] == line and now - due_since(d, lane, line) >= LATE_MS then late[#late + 1] = d end
  end
  line = line_of('waiting', lane, priority, way)
  for _, scope in ipairs(redis.call('ZRANGEBYSCORE', line, '-inf', now - LATE_MS, 'LIMIT', 0, MOST_LOOKED_AT)) do
    local d = domain(scope)
    if d[field] == line then late[#late + 1] = d end
  end
  return late
end

-- Lends a domain of these lines to the fetcher. False if there is none to lend.
local function borrow(fetcher, lane, priority, way)
  for _, d in ipairs(late_ones(lane, priority, way)) do
    if d.in_flight == 0 then
      d.lent = fetcher
      settle(d)
      return true
    end
  end
  return false
end
