-- The order of a lane: it is served in rounds, with one work of each client in a round, however many a client has
-- requested (self-clocked fair queueing: Golestani, INFOCOM 1994). A client's next work is in the round after that of its
-- last one, and after the present one: a round takes no more works once it has begun, so it ends however many clients
-- come. The site itself counts as a client. Popular content has rounds of its own, which take turns with those of all
-- other content, work by work: each has half of the lane. Within a round, first in is first out. Places of popular works
-- are negative.
local POPULAR_BEFORE, DAYS, MOST_SHARE, MOST_LOOKED_AT = 2 ^ 16, 2 ^ 36, 4, 4

local function band_of(lane, popular) return lane .. (popular and ':popular' or '') end

-- The present round, which is that of the work that left the lane last.
local present_rounds = {}  -- by band, as this step knows them

local function round_of(lane, popular)
  local band = band_of(lane, popular)
  present_rounds[band] = present_rounds[band] or tonumber(redis.call('HGET', root .. ':round', band) or 0)
  return present_rounds[band]
end

-- True if the lane takes another work of the client: it may have four times as many there as the room that is left
-- (dynamic thresholds: Choudhury, Hahne, IEEE/ACM Transactions on Networking 6, 1998).
local function has_room(lane, client, limit, ahead)
  if ahead >= limit then return false end
  if client == '' or ahead == 0 then return true end
  return tonumber(redis.call('HGET', root .. ':shares:' .. lane, client) or 0) < MOST_SHARE * (limit - ahead)
end

-- The place at the end of the client's next round.
local function next_place(lane, client, popular)
  local last = tonumber(redis.call('ZSCORE', root .. ':rounds:' .. band_of(lane, popular), client) or 0)
  local round = math.max(round_of(lane, popular), last) + 1
  local time = read_time()
  local place = round + (time[1] * 1000000 + time[2]) / 16 % DAYS / DAYS  -- within a round by arrival
  return popular and math.min(place, POPULAR_BEFORE - 1) - POPULAR_BEFORE or place
end

-- The number of works that come before a work of the lane.
local function count_before(work, lane) return count_in_turn(root .. ':queued:' .. lane, work) end

-- Queues the work of the client.
local function put_in_lane(work, lane, client, place)
  if client ~= '' then redis.call('HINCRBY', root .. ':shares:' .. lane, client, 1) end
  redis.call('ZADD', root .. ':queued:' .. lane, place, work)
end

-- Queues the work at the place. Returns the number of works before it.
local function take_place(work, lane, client, popular, place)
  local rounds = root .. ':rounds:' .. band_of(lane, popular)
  redis.call('ZREMRANGEBYSCORE', rounds, '-inf', round_of(lane, popular))
  redis.call('ZADD', rounds, math.floor(popular and place + POPULAR_BEFORE or place), client)
  place = string.format('%.17g', place)
  redis.call('HSET', root .. ':claim:' .. work, 'lane', lane, 'client', client, 'place', place)
  put_in_lane(work, lane, client, place)
  return count_before(work, lane)
end

-- Queues the work in the client's next round. Returns the number of works before it.
local function join_lane(work, lane, client, popular)
  return take_place(work, lane, client, popular, next_place(lane, client, popular))
end

-- Queues the work at its former place again, or, since rounds may have begun anew, before those of the present round.
local function rejoin_lane(work, lane, client, place)
  place = tonumber(place) or 0
  local present = place < 0 and round_of(lane, true) - POPULAR_BEFORE or round_of(lane, false)
  put_in_lane(work, lane, client, string.format('%.17g', math.min(place, present)))
end

local last_served = {}  -- by lane, as this step knows it: 'popular' or 'other' content

-- Forgets the rounds of an empty lane: they begin anew. Returns whether it is empty.
local function is_over(lane)
  if redis.call('EXISTS', root .. ':queued:' .. lane) == 1 then return false end
  redis.call('DEL', root .. ':rounds:' .. lane, root .. ':rounds:' .. lane .. ':popular', root .. ':shares:' .. lane)
  redis.call('HDEL', root .. ':round', lane, lane .. ':popular', lane .. ':last')
  present_rounds[lane], present_rounds[lane .. ':popular'], last_served[lane] = nil, nil, 'other'
  return true
end

-- Takes the work out of its lane, if it waits there. Returns its place, and whether the lane is empty.
local function leave_lane(work, lane, client)
  local place = tonumber(redis.call('ZSCORE', root .. ':queued:' .. lane, work))
  if not place then return nil end
  redis.call('ZREM', root .. ':queued:' .. lane, work)
  if client and client ~= '' and redis.call('HINCRBY', root .. ':shares:' .. lane, client, -1) < 1 then
    redis.call('HDEL', root .. ':shares:' .. lane, client)
  end
  return place, is_over(lane)
end

-- Takes out a work that is not served: the next one of its client may have its round.
local function withdraw_from_lane(work, lane, client)
  local place = leave_lane(work, lane, client)
  if not place then return end
  local rounds = root .. ':rounds:' .. band_of(lane, place < 0)
  local round = math.floor(place < 0 and place + POPULAR_BEFORE or place)
  if tonumber(redis.call('ZSCORE', rounds, client) or -1) == round then redis.call('ZADD', rounds, round - 1, client) end
end

-- Makes room in a full lane for one more work of a client: the last one of a client that has more is skipped (longest
-- queue drop: Suter, Lakshman, Stiliadis, Choudhury, INFOCOM 1998). Returns whether it did.
local function make_room(lane, client, terms)
  local queued, shares = root .. ':queued:' .. lane, root .. ':shares:' .. lane
  local function works_of(one) return tonumber(redis.call('HGET', shares, one) or 0) end
  local function drop_last(works)
    for _, work in ipairs(works) do
      local held = redis.call('HMGET', root .. ':claim:' .. work, 'token', 'client')
      local owner = held[2] or ''
      if held[1] and owner ~= '' and works_of(owner) > works_of(client) + 1 then
        withdraw_from_lane(work, lane, owner)
        skip_work(work, held[1], terms)
        return true
      end
    end
  end
  if client == '' then return false end
  return drop_last(redis.call('ZREVRANGEBYSCORE', queued, '+inf', 0, 'LIMIT', 0, MOST_LOOKED_AT))
    or drop_last(redis.call('ZREVRANGEBYSCORE', queued, '(0', '-inf', 'LIMIT', 0, MOST_LOOKED_AT)) or false
end

-- Moves the work to the client's next round, where that is an earlier one than its own: a client whose content others
-- requested before waits for its own turn alone. Returns the number of works before it, or nil if it stays.
local function move_ahead(work, lane, client, popular, from)
  local place = tonumber(redis.call('ZSCORE', root .. ':queued:' .. lane, work))
  if not place or client == '' or client == from then return nil end
  local earlier = next_place(lane, client, popular)
  if math.floor(earlier) >= math.floor(place) then return nil end
  withdraw_from_lane(work, lane, from)
  return take_place(work, lane, client, popular, earlier)
end

-- Gives the work to the client if that has less other work in the lane: there its publisher has the order, by the number
-- of each client's works. Returns the number of works before it, or nil if it stays.
local function hand_over(work, lane, client, from)
  local place = redis.call('ZSCORE', root .. ':queued:' .. lane, work)
  if not place or client == '' or from == '' or client == from then return nil end
  local waiting = redis.call('HMGET', root .. ':shares:' .. lane, client, from)
  if tonumber(waiting[1] or 0) + 1 >= tonumber(waiting[2] or 0) then return nil end
  leave_lane(work, lane, from)
  put_in_lane(work, lane, client, place)
  redis.call('HSET', root .. ':claim:' .. work, 'client', client)
  return count_before(work, lane)
end

-- Notes which work the lane has served: its round is the present one, unless a later one was.
local function note_served_place(lane, place)
  local round = math.floor(place < 0 and place + POPULAR_BEFORE or place)
  if round > 0 and round > round_of(lane, place < 0) then
    local band = band_of(lane, place < 0)
    present_rounds[band] = round
    redis.call('HSET', root .. ':round', band, string.format('%.0f', round))
  end
  local now_served = place < 0 and 'popular' or 'other'
  if last_served[lane] == now_served then return end
  last_served[lane] = now_served
  if place < 0 then
    redis.call('HSET', root .. ':round', lane .. ':last', 'popular')
  else
    redis.call('HDEL', root .. ':round', lane .. ':last')
  end
end

local leaving = {}  -- by lane, works whose turn has come, and their clients

-- Takes the work out of its lane, since its turn has come, with leave_lanes().
local function serve_lane(work, lane, client)
  local served = leaving[lane] or {works = {}, clients = {}}
  leaving[lane] = served
  local number = #served.works + 1
  served.works[number], served.clients[number] = work, client or ''
end

-- Counts works of clients no longer that have left the lane.
local function give_up_shares(lane, numbers)
  for client, number in pairs(numbers) do
    if redis.call('HINCRBY', root .. ':shares:' .. lane, client, -number) < 1 then
      redis.call('HDEL', root .. ':shares:' .. lane, client)
    end
  end
end

-- Takes the works that were served in this step out of their lanes.
local function leave_lanes()
  for lane, served in pairs(leaving) do
    local queued, last, furthest, numbers = root .. ':queued:' .. lane, nil, {}, {}
    for number, place in ipairs(redis.call('ZMSCORE', queued, unpack(served.works))) do
      if place then
        local client = served.clients[number]
        last = tonumber(place)
        furthest[last < 0] = math.max(furthest[last < 0] or last, last)
        if client ~= '' then numbers[client] = (numbers[client] or 0) + 1 end
      end
    end
    redis.call('ZREM', queued, unpack(served.works))
    give_up_shares(lane, numbers)
    if last and not is_over(lane) then
      for _, place in pairs(furthest) do note_served_place(lane, place) end
      note_served_place(lane, last)
    end
  end
  leaving = {}
end

-- The number of works in the lane, without those that it has served.
local function count_in_lane(lane)
  leave_lanes()
  return redis.call('ZCARD', root .. ':queued:' .. lane)
end

-- The work whose turn it is.
local function first_of_lane(lane)
  return first_in_turn(root .. ':queued:' .. lane, redis.call('HEXISTS', root .. ':round', lane .. ':last') == 1)
end
