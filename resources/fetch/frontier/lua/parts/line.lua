-- The lines of domains: for each lane, priority, owner and egress the due ones, by their remaining work and by the
-- length of their jobs, and the waiting ones, by their time. A domain without room is in none.
local wake_at = nil

-- The end of the names of lines by owner and egress. Without an owner there are lines too.
local function way_of(owner, egress) return via(owner == '' and '' or ':' .. owner, egress) end

local function line_of(kind, lane, priority, way) return 'fetch:{0}:' .. kind .. ':' .. lane .. ':' .. priority .. way end

local function is_owned(line) return line ~= '' and string.find(line, ':%d:') ~= nil end

-- The other line of the same due domains: the shortest jobs first. Nothing for waiting ones.
local function short_line(line) return string.sub(line, 1, 14) == 'fetch:{0}:due:' and 'fetch:{0}:short:' .. string.sub(line, 15) end

local function best_priority(d, lane)
  for priority = 1, 3 do
    if d[lane .. '_' .. priority] > 0 then return priority end
  end
end

-- The remaining work of the domain, in ms: its requests and the gaps between them.
local function remaining(d, lane) return d['sum_' .. lane] + waiting_in(d, lane) * gap_ms(d) end

-- The place of a due domain among short ones: by the mean length of its jobs. A longer one is passed by others for so
-- many times its length at the most. The domain keeps its earliest place while it is due.
local function short_place(d, lane) return whole(now + rules.patience * d['sum_' .. lane] / waiting_in(d, lane)) end

-- Decides on the domain's line. Remembers the earliest moment for which a fetcher may have to be woken.
local function place(d)
  local at, way = allowed_at(d), nil
  if d.lent ~= '' then owner_of(d) end  -- the loan may be over
  for _, lane in ipairs(LANES) do
    local priority, before, set, score = best_priority(d, lane), d['at_' .. lane], '', 0
    if priority and has_room(d, lane) then
      way = way or way_of(owner_of(d), d.egress)
      if at <= now then
        set, score = line_of('due', lane, priority, way), remaining(d, lane)
        d['short_' .. lane] = short_place(d, lane)
      else
        set, score = line_of('waiting', lane, priority, way), at
      end
      if before == '' or at < d['placed_' .. lane] then wake_at = math.min(wake_at or at, at) end
    end
    d['at_' .. lane], d['placed_' .. lane], d['score_' .. lane] = set, set == '' and 0 or at, score
  end
  d.moved = true
end

-- Keeps the set of those domains of a part that stand in lines of its owner: they move with the part.
local function note_standing(d)
  local held = d.held
  local stood = (is_owned(held.at_fast) or is_owned(held.at_slow)) and part_of(d, held)
  local stands = (is_owned(d.at_fast) or is_owned(d.at_slow)) and part_of(d)
  if stood == stands then return end
  if stood then redis.call('SREM', 'fetch:{0}:standing:' .. stood, d.scope) end
  if stands then redis.call('SADD', 'fetch:{0}:standing:' .. stands, d.scope) end
end

-- Writes the domain's lines to Redis, once after all changes.
local function stand(d)
  note_standing(d)
  for _, lane in ipairs(LANES) do
    local at, placed, held = 'at_' .. lane, 'placed_' .. lane, d.held
    local before, set = held[at], d[at]
    local short_before, short = short_line(before), short_line(set)
    if before ~= '' and before ~= set then redis.call('ZREM', before, d.scope) end
    if short_before and short_before ~= short then redis.call('ZREM', short_before, d.scope) end
    -- In the line of waiting domains, the score is the time at which it was placed.
    local stays = before == set and d[placed] > now and d[placed] == held[placed]
    if set ~= '' and not stays then redis.call('ZADD', set, d['score_' .. lane], d.scope) end
    if short then redis.call('ZADD', short, 'LT', d['short_' .. lane], d.scope) end
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

-- One publish, if any fetcher sleeps beyond that moment.
local function wake()
  if not wake_at then return end
  redis.call('ZREMRANGEBYSCORE', 'fetch:{0}:idle', '-inf', now)
  if redis.call('ZCARD', 'fetch:{0}:idle') > 0 then
    redis.call('PUBLISH', 'fetch:wake', string.format('%.0f', math.max(0, wake_at - now)))
  end
end
