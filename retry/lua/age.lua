-- Moves the first works of a lane in which nothing has started for long one lane up: second copies, with the same
-- token. Only a few in that time: the lane above has work of its own. In other partitions something may have started.
-- needs: root turns claim_skip lane_rounds
-- KEYS: root   ARGV: lane up up_limit age_ms most   -> list of {work, token, spec}
local lane, up = ARGV[1], ARGV[2]
local queued, above = root .. ':queued:' .. lane, root .. ':queued:' .. up
local claims, started = root .. ':claims', root .. ':started'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local long_ago = now - tonumber(ARGV[4])

local first = redis.call('ZRANGE', queued, 0, 0)[1]
if not first or tonumber(redis.call('HGET', root .. ':claim:' .. first, 'since') or 0) > long_ago then return {} end
if tonumber(redis.call('HGET', started, lane) or 0) > long_ago then return {} end
local most = math.min(tonumber(ARGV[5]), tonumber(ARGV[3]) - redis.call('ZCARD', above))
if most < 1 then return {} end

local found = {}
for _, work in ipairs(redis.call('ZRANGE', queued, 0, most - 1)) do
  local claim = root .. ':claim:' .. work
  local held = redis.call('HMGET', claim, 'token', 'state', 'lane', 'spec', 'client')
  leave_lane(work, lane, held[5])
  if held[1] and held[2] == 'queued' and held[3] == lane then
    join_lane(work, up, '', false)
    redis.call('HSET', claim, 'aged', 1)
    redis.call('ZADD', claims, now + 5000, work)
    found[#found + 1] = {work, held[1], held[4]}
  end
end
redis.call('HSET', started, lane, string.format('%.0f', now))
return found
