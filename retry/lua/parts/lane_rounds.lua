-- The order of a lane: it is served in rounds, with one work of each client in a round, however many a client has
-- requested (self-clocked fair queueing: Golestani, INFOCOM 1994). A client's next work is in the round after that of its
-- last one, and in none that is over. Popular content has rounds of its own, before all others. Work of the site itself
-- (no client) is in the present round. Within a round, first in is first out.
local POPULAR_BEFORE, DAYS, MOST_SHARE = 2 ^ 16, 2 ^ 36, 4

local function band_of(lane, popular) return lane .. (popular and ':popular' or '') end

-- The present round, which is that of the work that left the lane last. An empty lane begins anew.
local function round_of(lane, popular)
  local first = redis.call('ZRANGE', 'retry:queued:' .. lane, 0, 0, 'WITHSCORES')
  if not first[1] then
    redis.call('DEL', 'retry:rounds:' .. lane, 'retry:rounds:' .. lane .. ':popular', 'retry:shares:' .. lane)
    redis.call('HDEL', 'retry:round', lane, lane .. ':popular')
    return 0
  end
  local round = redis.call('HGET', 'retry:round', band_of(lane, popular))
  return tonumber(round) or (popular and 0 or math.max(0, math.floor(tonumber(first[2]))))
end

-- True if the lane takes another work of the client: it may have four times as many there as the room that is left
-- (dynamic thresholds: Choudhury, Hahne, IEEE/ACM Transactions on Networking 6, 1998).
local function has_room(lane, client, limit, ahead)
  if ahead >= limit then return false end
  if client == '' or ahead == 0 then return true end
  return tonumber(redis.call('HGET', 'retry:shares:' .. lane, client) or 0) < MOST_SHARE * (limit - ahead)
end

-- Queues the work in the client's next round. Returns the number of works before it.
local function join_lane(work, lane, client, popular)
  local round = round_of(lane, popular)
  if client ~= '' then
    local rounds = 'retry:rounds:' .. band_of(lane, popular)
    redis.call('ZREMRANGEBYSCORE', rounds, '-inf', round - 1)
    round = math.max(round, tonumber(redis.call('ZSCORE', rounds, client) or -1) + 1)
    redis.call('ZADD', rounds, round, client)
    redis.call('HINCRBY', 'retry:shares:' .. lane, client, 1)
  end
  local time = redis.call('TIME')
  local place = round + (time[1] * 1000000 + time[2]) / 16 % DAYS / DAYS  -- within a round by arrival
  if popular then place = math.min(place, POPULAR_BEFORE - 1) - POPULAR_BEFORE end
  place = string.format('%.17g', place)
  redis.call('HSET', 'retry:claim:' .. work, 'lane', lane, 'client', client, 'place', place)
  redis.call('ZADD', 'retry:queued:' .. lane, place, work)
  return redis.call('ZRANK', 'retry:queued:' .. lane, work)
end

-- Queues the work at its former place again.
local function rejoin_lane(work, lane, client, place)
  if client ~= '' then redis.call('HINCRBY', 'retry:shares:' .. lane, client, 1) end
  redis.call('ZADD', 'retry:queued:' .. lane, place, work)
end

-- Takes the work out of its lane, if it waits there.
local function leave_lane(work, lane, client)
  local place = tonumber(redis.call('ZSCORE', 'retry:queued:' .. lane, work))
  if not place then return end
  redis.call('ZREM', 'retry:queued:' .. lane, work)
  local band = band_of(lane, place < 0)
  local round = math.floor(place < 0 and place + POPULAR_BEFORE or place)
  if round > 0 and round > tonumber(redis.call('HGET', 'retry:round', band) or 0) then
    redis.call('HSET', 'retry:round', band, string.format('%.0f', round))
  end
  if client and client ~= '' and redis.call('HINCRBY', 'retry:shares:' .. lane, client, -1) < 1 then
    redis.call('HDEL', 'retry:shares:' .. lane, client)
  end
end
