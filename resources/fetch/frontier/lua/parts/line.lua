-- The lines of domains: for each lane, priority, owner and egress the due ones, by their remaining work and by the
-- length of their jobs, and the waiting ones, by their time. A domain without room is in none.
local wake_at = nil

-- Of domains with one time, those that this step places first are due first: else those with the first names would be,
-- each time. So much later are the scores of the others in line.
local TIE_MS, ties = 1 / 4096, -1

local function score_after_others(at)
  ties = ties + 1
  return at + TIE_MS * ties
end

-- The end of the names of lines by owner and egress. Without an owner there are lines too.
local function way_of(owner, egress) return via(owner == '' and '' or ':' .. owner, egress) end

-- The beginnings of lines, the short lines of due ones, and the lines by owners: once for each step.
local line_names = {due = {fast = {}, slow = {}}, waiting = {fast = {}, slow = {}}, short = {}, owned = {}}

local function line_of(kind, lane, priority, way)
  local starts = line_names[kind][lane]
  starts[priority] = starts[priority] or 'fetch:{0}:' .. kind .. ':' .. lane .. ':' .. priority
  return starts[priority] .. way
end

local function is_owned(line)
  if line == '' then return false end
  local known = line_names.owned
  if known[line] == nil then known[line] = string.find(line, ':%d:') ~= nil end
  return known[line]
end

-- The other line of the same due domains: the shortest jobs first. Nothing for waiting ones.
local function short_line(line)
  local known = line_names.short
  if known[line] == nil then
    known[line] = string.sub(line, 1, 14) == 'fetch:{0}:due:' and 'fetch:{0}:short:' .. string.sub(line, 15)
  end
  return known[line]
end

local function best_priority(d, lane)
  local counts = FIELDS[lane]
  for priority = 1, 3 do
    if d[counts[priority]] > 0 then return priority end
  end
end

-- The remaining work of the domain, in ms: its requests and the gaps between them.
local function remaining(d, lane) return d[FIELDS[lane].sum] + waiting_in(d, lane) * gap_ms(d) end

-- The place of a due domain among short ones: by the mean length of its jobs. A longer one is passed by others for so
-- many times its length at the most. The domain keeps its earliest place while it is due.
local function short_place(d, lane) return whole(now + rules.patience * d[FIELDS[lane].sum] / waiting_in(d, lane)) end

-- Decides on the domain's line. Remembers the earliest moment for which a fetcher may have to be woken. A domain whose
-- time has come in a line of waiting ones stays there until a claim brings it to that of due ones (`brings`).
local function place(d, brings)
  local at, way = allowed_at(d), nil
  if d.lent ~= '' then owner_of(d) end  -- the loan may be over
  for _, lane in ipairs(LANES) do
    local names = FIELDS[lane]
    local priority, before, set, placed, score = best_priority(d, lane), d[names.at], '', 0, 0
    if priority and has_room(d, lane) then
      way = way or way_of(owner_of(d), d.egress)
      local stood = d[names.placed]
      set, placed, score = line_of('waiting', lane, priority, way), at, at
      if at > now then score = score_after_others(at) end
      if at <= now and before == set and stood <= now and not brings then
        placed = stood
      elseif at <= now then
        set, score = line_of('due', lane, priority, way), remaining(d, lane)
        d[names.short] = short_place(d, lane)
      end
      if before == '' or placed < stood then wake_at = math.min(wake_at or at, at) end
    end
    if set ~= '' or before ~= '' then d[names.at], d[names.placed], d[names.score] = set, placed, score end
  end
  d.moved = true
end

-- Keeps the set of those domains of a part that stand in lines of its owner: they move with the part.
local function note_standing(d)
  local held = d.held
  local stood = is_owned(held.at_fast) or is_owned(held.at_slow)
  local stands = is_owned(d.at_fast) or is_owned(d.at_slow)
  if stood == stands and (not stands or held.lent == d.lent) then return end
  if stood then redis.call('SREM', 'fetch:{0}:standing:' .. part_of(d, held), d.scope) end
  if stands then redis.call('SADD', 'fetch:{0}:standing:' .. part_of(d), d.scope) end
end

-- Gathers the changes of a lane's lines. In the line of waiting domains, the score is the time at which it was placed.
local function stand_in(d, names, before, set)
  local short_before, short = short_line(before), short_line(set)
  if before ~= '' and before ~= set then gather_removal(before, d.scope) end
  if short_before and short_before ~= short then gather_removal(short_before, d.scope) end
  local stays = before == set and not short and d[names.placed] == d.held[names.placed]
  if set ~= '' and not stays then gather_add(set, text_of(d[names.score]), d.scope) end
  if short then gather_lower(short, text_of(d[names.short]), d.scope) end
end

local function stand(d)
  note_standing(d)
  for _, lane in ipairs(LANES) do
    local names = FIELDS[lane]
    local before, set = d.held[names.at], d[names.at]
    if before ~= '' or set ~= '' then stand_in(d, names, before, set) end
  end
  d.moved = false
end

-- Writes the domain to Redis, once after all changes; its lines with write_gathered().
local function keep_changes(d)
  if d.moved then stand(d) end
  write(d)
end

local function save(d)
  keep_changes(d)
  write_gathered()
end

local function settle(d)
  place(d)
  save(d)
end

-- One publish, if any fetcher sleeps beyond that moment. Sleepers that were woken for it, or for an earlier one, are
-- woken again after a second only: a publish can be lost. Fetchers of earlier versions do not say that they sleep anew,
-- so the sleepers and their times are compared.
local function wake()
  if not wake_at then return end
  redis.call('ZREMRANGEBYSCORE', 'fetch:{0}:idle', '-inf', now)
  local flat = redis.call('ZRANGE', 'fetch:{0}:idle', 0, -1, 'WITHSCORES')
  if not flat[1] then return end
  local sleepers = table.concat(flat, ' ')
  local moment, woken = string.match(redis.call('GET', 'fetch:{0}:woken') or '', '^(%S+) (.*)$')
  if woken == sleepers and tonumber(moment) <= wake_at then return end
  redis.call('SET', 'fetch:{0}:woken', string.format('%.17g ', wake_at) .. sleepers, 'PX', 1000)
  redis.call('PUBLISH', 'fetch:wake', string.format('%.0f', math.max(0, wake_at - now)))
end
