-- Claims the next jobs, so many at most, for a fetcher with room in these lanes: dead jobs first, then of its due
-- domains those with interactive work, and with flagged work. Among these the one with the most work left, if that
-- decides when all is done, else the one with the shortest jobs.
-- needs: domain owners line clock job network spread moves loans retry.root retry.tokens retry.turns retry.claim_skip retry.lane_rounds retry.claim_return works lapses retry.claim_start starts
-- Works of the deferral protocol that wait for them start in the same step, with `terms` (or '').
-- ARGV: rules fetcher machine egresses most terms | for each lane its name and room
-- -> for each "claimed"|"doomed" token version job payloads starts; idle wait_ms when nothing more is due, in any lane
-- starts: for each waiter the outcome of start_work; nothing if the turn is for robots.txt
-- job: key url detail scope host egress lane priority attempts lapses needs_robots why
local fetcher, machine, most = ARGV[2], ARGV[3], tonumber(ARGV[5])
local terms = ARGV[6] ~= '' and cjson.decode(ARGV[6])
local BOUNDS = {least_moves = 8, moves = 32, tries = 16, wait_ms = 60000}
local lanes, room, found, number = {}, {}, {}, 0
for place = 7, #ARGV, 2 do
  lanes[#lanes + 1], room[ARGV[place]] = ARGV[place], tonumber(ARGV[place + 1])
end

local function start_works(job, wanted)
  local starts = {}
  if not terms or job.needs_robots == '1' then return starts end
  for place = 1, #wanted, 2 do
    local outcome, _, waiter = start_waiting(job.key, job.token, wanted[place], wanted[place + 1], terms)
    wanted[place + 1], starts[#starts + 1] = waiter, outcome
  end
  return starts
end

-- `...`: further fields of the job, names and values in turn.
local function hand_out(how, job, state, ...)
  local token = new_token()
  set_job(job, 'state', state, 'token', token, 'worker', fetcher, 'claimed', now, ...)
  redis.call('ZADD', 'fetch:{0}:leases', whole(now + rules.lease_ms), job.key)
  if number == 0 then redis.call('ZREM', 'fetch:{0}:idle', fetcher) end
  local record = {job.key, job.url, job.detail, job.scope, job.host, job.egress, job.lane, job.priority, job.attempts,
    job.lapses, job.needs_robots or '0', job.why or ''}
  local wanted = redis.call('HGETALL', 'fetch:{0}:wanted:' .. job.key)
  for _, part in ipairs({how, token, string.format('%.0f', job.version), record, wanted, start_works(job, wanted)}) do
    found[#found + 1] = part
  end
  number = number + 1
  room[job.lane] = (room[job.lane] or 0) - 1
end

-- The living fetchers, and when the first of the others lapses. A claim is a sign of life too.
local fetchers, lapses_at

local function find_fetchers()
  local flat, score = redis.call('ZRANGE', 'fetch:{0}:fetchers', 0, -1, 'WITHSCORES'), nil
  fetchers, lapses_at = {}, math.huge
  for place = 1, #flat, 2 do
    local at = tonumber(flat[place + 1])
    fetchers[#fetchers + 1] = flat[place]
    if flat[place] == fetcher then score = at else lapses_at = math.min(lapses_at, at + rules.lease_ms) end
  end
  return score ~= nil and now - score < rules.lease_ms / 2 and lapses_at > now
end

local function be_counted()
  if find_fetchers() then return end
  sign_in(fetcher, machine, ARGV[4])
  find_fetchers()
end

-- The lines of this fetcher that may be used now, by egress, and when those by another may be: while the network is
-- away by one, a request now and then tests it. Then others own the domains by that egress: it is taken from anybody's.
local open, away, next_try
local known = redis.call('SMEMBERS', 'fetch:{0}:egresses')
known[#known + 1] = ''

local function open_lines(egress)
  for _, owner in ipairs(away[egress] and fetchers or {fetcher}) do open[#open + 1] = way_of(owner, egress) end
end

local function find_ways()
  open, away, next_try = {}, {}, math.huge
  for _, egress in ipairs(known) do
    local network = redis.call('HMGET', network_name(machine, egress), 'since', 'try_at')
    local try_at = tonumber(network[2])
    away[egress] = network[1] and now - network[1] <= rules.outage_ms
    if not away[egress] or try_at <= now or try_at > now + rules.outage_try_ms then  -- the clock was set back
      open_lines(egress)
    else
      next_try = math.min(next_try, try_at)
    end
  end
end

-- Domains that this call has found due, by line: they are put there at its end, unless one of their
-- jobs is handed out. And the lines that are empty in Redis.
local brought, found_empty = {}, {}

-- Where enough are in the line, a few more are brought: one that is handed out at once need not be put there.
local function bring_due(lane, priority, way)
  local line = line_of('due', lane, priority, way)
  if brought[line] then return line end
  brought[line] = {}
  local lacking = most + BOUNDS.least_moves - redis.call('ZCARD', line)
  local number = math.max(BOUNDS.least_moves, math.min(BOUNDS.moves, lacking))
  for _, scope in ipairs(due(line_of('waiting', lane, priority, way), number)) do
    local d = domain(scope)
    place(d)
    table.insert(brought[line], d)
  end
  return line
end

-- Saves a domain that has another place in line, or none.
local function save_moved(d)
  save(d)
  for _, lane in ipairs(LANES) do
    local line = d[FIELDS[lane].at]
    found_empty[line], found_empty[short_line(line) or ''] = nil, nil
  end
end

-- The first of the line in Redis, after the changes of this call: read by ZREVRANGE or ZRANGE.
local function first_there(read, line)
  while not found_empty[line] do
    local one = redis.call(read, line, 0, 0, 'WITHSCORES')
    local d = loaded[one[1] or '']
    if not (d and d.moved) then
      found_empty[line] = not one[1]
      return one[1], tonumber(one[2])
    end
    save_moved(d)
  end
end

-- The work that a domain has left if it decides when all of this fetcher's domains are done: the rest then only just
-- fills the slots beside it, and beside those with about as much left. Until then others go first: all is done as early,
-- and half as late on average. Computed once, for the domain with the most left. Of the lane's work, the fetcher is
-- taken to have an equal share.
local decisive = {}

local function decisive_ms(lane, priority, most_left)
  local place = lane .. priority
  if not decisive[place] then
    local alike = 0
    for _, way in ipairs(open) do
      alike = alike + redis.call('ZCOUNT', line_of('due', lane, priority, way), most_left * rules.alike, '+inf')
    end
    local left = tonumber(redis.call('HGET', 'fetch:{0}:left', lane) or 0) + left_more[lane]
    decisive[place] = left / #fetchers / (rules.fill * rules.slots + math.max(1, alike))
  end
  return decisive[place]
end

-- Of the due domains by any egress the one with the shortest jobs, if any in Redis has shorter ones than that.
local function shortest_due(lane, priority, first, least)
  for _, way in ipairs(open) do
    local scope, place = first_there('ZRANGE', short_line(line_of('due', lane, priority, way)))
    if scope and place < least then first, least = scope, place end
  end
  return first
end

-- The due domain whose job is handed out next, by any egress.
local function first_due(lane, priority)
  local at, score, short = FIELDS[lane].at, FIELDS[lane].score, FIELDS[lane].short
  local longest, most_left, shortest, least = nil, -1, nil, math.huge
  for _, way in ipairs(open) do
    local line = bring_due(lane, priority, way)
    local scope, left = first_there('ZREVRANGE', line)
    if scope and left > most_left then longest, most_left = scope, left end
    for _, d in ipairs(brought[line]) do
      if d.moved and d[at] == line then
        if d[score] > most_left then longest, most_left = d.scope, d[score] end
        if d[short] < least then shortest, least = d.scope, d[short] end
      end
    end
  end
  if not longest or most_left >= decisive_ms(lane, priority, most_left) then return longest end
  return shortest_due(lane, priority, shortest, least) or longest
end

-- A domain that is still due may be in another line now: it is saved there.
local function place_again(d, lane)
  local before = d[FIELDS[lane].at]
  place(d)
  if d[FIELDS[lane].at] == '' or d[FIELDS[lane].at] == before or allowed_at(d) > now then return end
  save_moved(d)
end

-- The next job of a domain, and its fields to set; nothing if its address has just expired.
local function request_of(d, lane)
  local queue = 'fetch:{0}:jobs:' .. d.scope .. ':' .. lane .. ':' .. best_priority(d, lane)
  local job = job_of(first_in_turn(queue, d[FIELDS[lane].popular] == 1))
  take(d, job)
  if job.expires > 0 and job.expires <= now then
    doom(job, 'expired')
    place_again(d, lane)
    return nil
  end
  local gap, obeys = gap_ms(d), job.robots == '1' and d.set_delay == ''
  if obeys then gap = math.max(gap, d.crawl) end
  local needs_robots = obeys and d.crawl_until <= now
  if needs_robots then d.robots_job = job.key end
  -- Only steady requests tell of the rate: an idle domain's success says nothing of it.
  local paced = d.next > 0 and gap == gap_ms(d) and now - allowed_at(d) <= math.max(gap, 20)
  local before, beside = d.next, d.in_flight
  d.next = next_turn(d, now, gap)
  d.in_flight = beside + 1
  if lane == 'slow' then d.slow_in_flight = d.slow_in_flight + 1 end
  d.asked_at = whole(now)
  d[FIELDS[lane].popular] = job.order < 0 and 1 or 0
  d.budget = math.min(rules.retry_budget, d.budget + rules.retry_share)
  place_again(d, lane)
  job.needs_robots = needs_robots and '1' or '0'
  return job, {'slot_before', before, 'slot_next', d.next, 'paced', paced and '1' or '0', 'beside', beside,
    'needs_robots', job.needs_robots}
end

-- Saves each domain once, after all changes of its place in line.
local function settle_all()
  for _, d in pairs(loaded) do save(d) end
end

local function earliest(set, floor)
  local first = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')
  return first[2] and math.max(floor, tonumber(first[2])) or math.huge
end

local function next_event()
  local at = math.min(now + BOUNDS.wait_ms, lapses_at)
  for _, lane in ipairs(lanes) do
    for priority = 1, 3 do
      for _, way in ipairs(open) do
        at = math.min(at, earliest(line_of('waiting', lane, priority, way), now))
      end
    end
  end
  for _, set in ipairs({'fetch:{0}:doomed', 'fetch:{0}:leases', 'fetch:{0}:later', 'fetch:{0}:expiring', 'fetch:{0}:stalls'}) do
    at = math.min(at, earliest(set, now))
  end
  return at
end

local function idle(wait_ms)
  wait_ms = math.ceil(math.max(0, wait_ms))
  redis.call('ZADD', 'fetch:{0}:idle', now + wait_ms + 1000, fetcher)
  found[#found + 1], found[#found + 2] = 'idle', wait_ms
end

local tries = 0  -- domains whose first job had just expired, or that had got another owner

-- Moves a domain of which another fetcher is the owner by now to that one's line.
local function is_of_another(d)
  if away[d.egress] or owner_of(d) == fetcher then return false end
  move_domain(d)
  found_empty = {}
  return true
end

-- Borrows a late domain of another fetcher, by an egress that works here.
local function borrow_any(lane, priority, busy)
  for _, egress in ipairs(known) do
    local may_borrow = not away[egress] and owner_of_part(loans_name(fetcher, egress)) == fetcher
    for _, owner in ipairs(may_borrow and busy or {}) do
      if borrow(fetcher, lane, priority, way_of(owner, egress)) then
        found_empty = {}
        return true
      end
    end
  end
  return false
end

-- Hands out a due job of the lane and priority, if there is one.
local function hand_out_due(lane, priority)
  local scope = first_due(lane, priority)
  while scope and tries < BOUNDS.tries do
    local d = domain(scope)
    local job, notes
    if not is_of_another(d) then job, notes = request_of(d, lane) end
    if job then
      if away[d.egress] then
        redis.call('HSET', network_name(machine, d.egress), 'try_at', now + rules.outage_try_ms)
        find_ways()
      end
      hand_out('claimed', job, 'running', unpack(notes))
      return true
    end
    tries = tries + 1
    scope = first_due(lane, priority)
  end
  return false
end

local is_more_to_move

local function hand_out_own()
  for priority = 1, 3 do
    for _, lane in ipairs(lanes) do
      if room[lane] > 0 and hand_out_due(lane, priority) then return true end
    end
  end
  return false
end

local function hand_out_borrowed(busy)
  for priority = 1, 3 do
    for _, lane in ipairs(lanes) do
      if room[lane] > 0 and borrow_any(lane, priority, busy) and hand_out_due(lane, priority) then return true end
    end
  end
  return false
end

-- True if it handed out a job; else also the time until the next claim.
local function hand_out_next()
  if hand_out_own() then return true end
  local busy = #fetchers > 1 and busy_others(fetchers, fetcher) or {}
  if busy[1] and hand_out_borrowed(busy) then return true end
  settle_all()
  local at = busy[1] and now + LATE_MS or math.huge
  return false, is_more_to_move and 0 or math.min(at, next_try, next_event()) - now
end

-- Due jobs of a full lane are not known: the fetcher claims again when it has room there.
local function is_room_left()
  for _, lane in ipairs(lanes) do
    if room[lane] <= 0 then return false end
  end
  return true
end

local function hand_out_doomed()
  for _, key in ipairs(redis.call('ZRANGE', 'fetch:{0}:doomed', 0, most - 1)) do
    redis.call('ZREM', 'fetch:{0}:doomed', key)
    hand_out('doomed', job_of(key), 'ending')
  end
end

follow_the_clock()
be_counted()
is_more_to_move = move_few(known)
reap()
hand_out_doomed()
find_ways()
local more, wait_ms = true, 0
while more and number < most do more, wait_ms = hand_out_next() end
settle_all()
keep_last_token()
count_queued()
wake()
if not more and is_room_left() then idle(wait_ms) end
return found
