-- Claims the next jobs, so many at most, for a fetcher with room in these lanes: dead jobs first, then of its due
-- domains those with interactive work, and with flagged work. Among these the one with the most work left, if that
-- decides when all is done, else the one with the shortest jobs.
-- needs: retry.root retry.gathered domain owners line clock job network spread moves loans retry.tokens retry.turns retry.claim_skip retry.lane_rounds retry.claim_return works lapses retry.claim_start starts
-- Works of the deferral protocol that wait for them start in the same step, with `terms` (or '').
-- ARGV: rules fetcher machine egresses most terms | for each lane its name and room
-- -> for each "claimed"|"doomed" token version job payloads starts; idle wait_ms when nothing more is due, in any lane
-- starts: for each waiter the outcome of start_work; nothing if the turn is for robots.txt
-- job: key url detail scope host egress lane priority attempts lapses needs_robots why
local fetcher, machine, most = ARGV[2], ARGV[3], tonumber(ARGV[5])
local terms = ARGV[6] ~= '' and cjson.decode(ARGV[6])
local BOUNDS = {least_moves = 8, moves = 64, read = 8, tries = 16, wait_ms = 60000}
-- As text: Redis has each number written anew.
local NOW, LEASE_UNTIL = string.format('%.17g', now), string.format('%.0f', now + rules.lease_ms)
local PARTS_OF_ONE = 6
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
  job.token = token
  redis.call('HSET', job_name(job.key), 'state', state, 'token', token, 'worker', fetcher, 'claimed', NOW, ...)
  gather_add('fetch:{0}:leases', LEASE_UNTIL, job.key)
  if number == 0 then redis.call('ZREM', 'fetch:{0}:idle', fetcher) end
  local record = {job.key, job.url, job.detail, job.scope, job.host, job.egress, job.lane, job.priority, job.attempts,
    job.lapses, job.needs_robots or '0', job.why or ''}
  local wanted = redis.call('HGETALL', 'fetch:{0}:wanted:' .. job.key)
  local place = number * PARTS_OF_ONE
  found[place + 1], found[place + 2], found[place + 3] = how, token, job.version
  found[place + 4], found[place + 5], found[place + 6] = record, wanted, start_works(job, wanted)
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

local spent = {fast = {}, slow = {}}  -- by lane, priorities in which nothing is due
local first_due, read_anew
do
  -- Domains that this call has found due, by line: they are put there at its end, unless one of their
  -- jobs is handed out.
  local brought = {}

  -- Where enough are in the line, a few more are brought: one that is handed out at once need not be put there.
  local function bring_due(lane, priority, way, line)
    brought[line] = {}
    local lacking = most + BOUNDS.least_moves - redis.call('ZCARD', line)
    local number = math.max(BOUNDS.least_moves, math.min(BOUNDS.moves, lacking))
    for _, scope in ipairs(due(line_of('waiting', lane, priority, way), number)) do
      local d = domain(scope)
      place(d, true)
      table.insert(brought[line], d)
    end
  end

  -- The due domains of a line in an order: the first ones in Redis, which are read a few at a time, and those that this
  -- call has brought, the first one last. Those with the most left are first (sign 1), or the shortest (sign -1).
  local function read_order(line, lane, sign)
    local names = FIELDS[lane]
    local order = {line = line, at = names.at, sign = sign, field = sign == 1 and names.score or names.short,
      set = sign == 1 and line or short_line(line), there = {}, next = 1, read = 0, brought = {}}
    for _, d in ipairs(brought[line]) do
      if d.moved and d[order.at] == line then table.insert(order.brought, d) end
    end
    table.sort(order.brought, function(one, other) return sign * one[order.field] < sign * other[order.field] end)
    return order
  end

  -- The first one in Redis, and its place there. Domains that this call has moved are there no more.
  local function first_there(order)
    while true do
      local scope, at = order.there[order.next], order.there[order.next + 1]
      if scope and not (loaded[scope] and loaded[scope].moved) then return scope, tonumber(at) end
      order.next = order.next + 2
      if not scope then
        if order.is_over then return nil end
        local read, last = order.sign == 1 and 'ZREVRANGE' or 'ZRANGE', order.read + BOUNDS.read - 1
        order.there = redis.call(read, order.set, order.read, last, 'WITHSCORES')
        order.is_over, order.read, order.next = #order.there < 2 * BOUNDS.read, last + 1, 1
      end
    end
  end

  -- The first one that was brought.
  local function first_brought(order)
    local list = order.brought
    local d = list[#list]
    while d and not (d.moved and d[order.at] == order.line) do
      list[#list] = nil
      d = list[#list]
    end
    return d
  end

  -- The first domain of all, and its place.
  local function first_in(order)
    local scope, at = first_there(order)
    local d = first_brought(order)
    if d and not (scope and order.sign * at >= order.sign * d[order.field]) then return d.scope, d[order.field] end
    return scope, at
  end

  -- By lane and priority: the two orders of each due line that is open.
  local orders = {fast = {}, slow = {}}

  -- Has the lines read anew, in which a domain may have another place now.
  read_anew = function() orders, spent = {fast = {}, slow = {}}, {fast = {}, slow = {}} end

  local function orders_of(lane, priority)
    local known = orders[lane][priority]
    if known then return known end
    known = {}
    for place, way in ipairs(open) do
      local line = line_of('due', lane, priority, way)
      if not brought[line] then bring_due(lane, priority, way, line) end
      known[place] = {left = read_order(line, lane, 1), short = read_order(line, lane, -1)}
    end
    orders[lane][priority] = known
    return known
  end

  -- The work that a domain has left if it decides when all of this fetcher's domains are done: the rest then only just
  -- fills the slots beside it, and beside those with about as much left. Until then others go first: all is done as
  -- early, and half as late on average. Computed once, for the domain with the most left. Of the lane's work, the
  -- fetcher is taken to have an equal share.
  local decisive = {fast = {}, slow = {}}

  local function decisive_ms(lane, priority, most_left)
    if not decisive[lane][priority] then
      local alike, score = 0, FIELDS[lane].score
      for _, each in ipairs(orders_of(lane, priority)) do
        alike = alike + redis.call('ZCOUNT', each.left.line, most_left * rules.alike, '+inf')
        for _, d in ipairs(each.left.brought) do
          if d[score] >= most_left * rules.alike then alike = alike + 1 end
        end
      end
      local left = tonumber(redis.call('HGET', 'fetch:{0}:left', lane) or 0) + left_more[lane]
      decisive[lane][priority] = left / #fetchers / (rules.fill * rules.slots + math.max(1, alike))
    end
    return decisive[lane][priority]
  end

  -- The due domain whose job is handed out next, by any egress.
  first_due = function(lane, priority)
    local all, longest, most_left = orders_of(lane, priority), nil, -1
    for _, each in ipairs(all) do
      local scope, left = first_in(each.left)
      if scope and left > most_left then longest, most_left = scope, left end
    end
    if not longest or most_left >= decisive_ms(lane, priority, most_left) then return longest end
    local shortest, least = nil, math.huge
    for _, each in ipairs(all) do
      local scope, place = first_in(each.short)
      if scope and place < least then shortest, least = scope, place end
    end
    return shortest or longest
  end
end

-- A domain that is still due is saved with its place in line.
local function place_again(d, lane)
  place(d)
  if d[FIELDS[lane].at] == '' or allowed_at(d) > now then return end
  save(d)
  read_anew()
end

-- Takes the next job out of a queue: popular content takes turns with all other content.
local function pop_job(queue, after_popular)
  if not after_popular then return redis.call('ZPOPMIN', queue)[1] end
  local key = first_in_turn(queue, after_popular)
  redis.call('ZREM', queue, key)
  return key
end

-- The next job of a domain, and its fields to set; nothing if its address has just expired.
local function request_of(d, lane)
  local queue = 'fetch:{0}:jobs:' .. d.scope .. ':' .. lane .. ':' .. best_priority(d, lane)
  local job = job_of(pop_job(queue, d[FIELDS[lane].popular] == 1))
  leave_queue(d, job)
  if job.expires > 0 and job.expires <= now then
    doom(job, 'expired')
    place_again(d, lane)
    return nil
  end
  local usual, obeys = gap_ms(d), job.robots == '1' and d.set_delay == ''
  local gap = obeys and math.max(usual, d.crawl) or usual
  local needs_robots = obeys and d.crawl_until <= now
  if needs_robots then d.robots_job = job.key end
  -- Only steady requests tell of the rate: an idle domain's success says nothing of it.
  local paced = d.next > 0 and gap == usual and now - allowed_at(d) <= math.max(gap, 20)
  local before, beside = d.next, d.in_flight
  d.next = next_turn(d, now, gap)
  d.in_flight = beside + 1
  if lane == 'slow' then d.slow_in_flight = d.slow_in_flight + 1 end
  d.asked_at = whole(now)
  d[FIELDS[lane].popular] = job.order < 0 and 1 or 0
  d.budget = math.min(rules.retry_budget, d.budget + rules.retry_share)
  place_again(d, lane)
  job.needs_robots = needs_robots and '1' or '0'
  return job, {'slot_before', text_of(before), 'slot_next', text_of(d.next), 'paced', paced and '1' or '0',
    'beside', text_of(beside), 'needs_robots', job.needs_robots}
end

-- Saves each domain once, after all changes of its place in line.
local function settle_all()
  for _, d in pairs(loaded) do keep_changes(d) end
  write_gathered()
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
  redis.call('DEL', 'fetch:{0}:woken')
  found[#found + 1], found[#found + 2] = 'idle', wait_ms
end

local tries = 0  -- domains whose first job had just expired, or that had got another owner

-- Moves a domain of which another fetcher is the owner by now to that one's line.
local function is_of_another(d)
  if away[d.egress] or owner_of(d) == fetcher then return false end
  move_domain(d)
  read_anew()
  return true
end

-- Borrows a late domain of another fetcher, by an egress that works here.
local function borrow_any(lane, priority, busy)
  for _, egress in ipairs(known) do
    local may_borrow = not away[egress] and owner_of_part(loans_name(fetcher, egress)) == fetcher
    for _, owner in ipairs(may_borrow and busy or {}) do
      if borrow(fetcher, lane, priority, way_of(owner, egress)) then
        read_anew()
        return true
      end
    end
  end
  return false
end

-- Hands out a due job of the lane and priority, if there is one.
local function hand_out_due(lane, priority)
  if spent[lane][priority] then return false end
  local scope = first_due(lane, priority)
  while scope and tries < BOUNDS.tries do
    local d = domain(scope)
    local job, notes
    if not is_of_another(d) then job, notes = request_of(d, lane) end
    if job then
      if away[d.egress] then
        redis.call('HSET', network_name(machine, d.egress), 'try_at', now + rules.outage_try_ms)
        find_ways()
        read_anew()
      end
      hand_out('claimed', job, 'running', unpack(notes))
      return true
    end
    tries = tries + 1
    scope = first_due(lane, priority)
  end
  spent[lane][priority] = true
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
leave_lanes()
settle_all()
keep_last_token()
keep_fencing_token()
count_queued()
wake()
if not more and is_room_left() then idle(wait_ms) end
return found
