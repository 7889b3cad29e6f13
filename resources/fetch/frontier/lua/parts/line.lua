-- The line of domains: for each lane and priority those that are due, by what remains to be done, and
-- those whose time comes, by that time; and so for each way out. A domain that has no room stands in neither.
local wake_at = nil

local function line_of(kind, lane, priority, egress)
  return via('fetch:' .. kind .. ':' .. lane .. ':' .. priority, egress)
end

local function best_priority(d, lane)
  for priority = 1, 3 do
    if d[lane .. '_' .. priority] > 0 then return priority end
  end
end

-- What is left of the domain's chain, in ms: its requests and the gaps between them.
local function remaining(d, lane) return d['sum_' .. lane] + waiting_in(d, lane) * gap_ms(d) end

-- Says where the domain belongs. Remembers the earliest moment for which somebody may have to be woken.
local function place(d)
  local at = allowed_at(d)
  for _, lane in ipairs(LANES) do
    local priority, before, set, score = best_priority(d, lane), d['at_' .. lane], '', 0
    if priority and has_room(d, lane) then
      if at <= now then
        set, score = line_of('due', lane, priority, d.egress), remaining(d, lane)
      else
        set, score = line_of('waiting', lane, priority, d.egress), at
      end
      if before == '' or at < d['placed_' .. lane] then wake_at = math.min(wake_at or at, at) end
    end
    d['at_' .. lane], d['placed_' .. lane], d['score_' .. lane] = set, set == '' and 0 or at, score
  end
  d.moved = true
end

-- Puts it there, however often that has changed meanwhile.
local function stand(d)
  for _, lane in ipairs(LANES) do
    local at, placed, held = 'at_' .. lane, 'placed_' .. lane, d.held
    local before, set = held[at], d[at]
    if before ~= '' and before ~= set then redis.call('ZREM', before, d.scope) end
    -- In the line of those that wait, the score is the time at which it was placed.
    local stays = before == set and d[placed] > now and d[placed] == held[placed]
    if set ~= '' and not stays then redis.call('ZADD', set, d['score_' .. lane], d.scope) end
  end
  d.moved = false
end

local function save(d)
  if d.moved then stand(d) end
  write(d)
end

local function settle(d)
  place(d)
  save(d)
end

-- One publish for those who sleep beyond that moment, if anybody does.
local function wake()
  if not wake_at then return end
  redis.call('ZREMRANGEBYSCORE', 'fetch:idle', '-inf', now)
  if redis.call('ZCARD', 'fetch:idle') > 0 then
    redis.call('PUBLISH', 'fetch:wake', string.format('%.0f', math.max(0, wake_at - now)))
  end
end
