-- Queues in which popular content, which has negative places, takes turns with all other content, one by one: each has
-- half of the turns.

-- The work whose turn it is.
local function first_in_turn(queue, after_popular)
  local other = after_popular and redis.call('ZRANGEBYSCORE', queue, 0, '+inf', 'LIMIT', 0, 1)[1]
  return other or redis.call('ZRANGE', queue, 0, 0)[1]
end

-- The number of works that come before a work of the queue.
local function count_in_turn(queue, work)
  local rank, place = redis.call('ZRANK', queue, work), tonumber(redis.call('ZSCORE', queue, work))
  if not place then return 0 end
  local popular = redis.call('ZCOUNT', queue, '-inf', '(0')
  if place < 0 then return rank + math.min(rank, redis.call('ZCARD', queue) - popular) end
  local own = rank - popular
  return own + math.min(own + 1, popular)
end
