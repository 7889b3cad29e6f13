-- Returns the due claims of one partition. First lapsed leases: at the first lapse the work gets a new token and is
-- queued again, at the second within lapse_ms it is returned as `lapsed`. Then queued work that has waited for long, as
-- `due`: it is to be published again if its lane holds too few messages.
-- needs: root tokens turns claim_skip lane_rounds
-- KEYS: root   ARGV: most lapse_ms cache_is_away("1"|"")   -> list of {what, work, token, lane, spec}
local claims, leases = root .. ':claims', root .. ':leases'
local swept, setbacks = root .. ':swept', root .. ':setbacks'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = {}

local function due(set) return redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, ARGV[1]) end
local function held(work, ...) return redis.call('HMGET', root .. ':claim:' .. work, 'token', 'lane', 'spec', ...) end
local function report(what, work, claim, token) found[#found + 1] = {what, work, token, claim[2], claim[3]} end

-- After this server's clock was set back, due times move with it.
local back = tonumber(redis.call('GET', root .. ':clock') or now) - now
redis.call('SET', root .. ':clock', string.format('%.0f', now))
for _, set in ipairs(back > 5000 and {claims, leases} or {}) do
  local all = redis.call('ZRANGE', set, 0, -1, 'WITHSCORES')
  for place = 1, #all, 2 do redis.call('ZADD', set, tonumber(all[place + 1]) - back, all[place]) end
end
-- So do the expiry times of all keys, a few in each call of setback.lua.
if back > 5000 then redis.call('RPUSH', setbacks, string.format('%.0f 0', back)) end

notice_other_server(time[1] * 1000000 + time[2])

-- Contents that were stored before may be lost: no done mark is in force for longer.
if ARGV[3] == '1' then redis.call('SET', root .. ':away', 1, 'PX', 10000) end

for _, work in ipairs(due(leases)) do
  local claim = held(work, 'lapsed', 'client', 'place')
  if not claim[1] then
    redis.call('ZREM', leases, work)
  elseif claim[4] and now - claim[4] < tonumber(ARGV[2]) then
    redis.call('ZADD', leases, now + 5000, work)
    report('lapsed', work, claim, claim[1])
  else
    local token = next_token()
    redis.call('HSET', root .. ':claim:' .. work, 'token', token, 'state', 'queued', 'lapsed', string.format('%.0f', now))
    redis.call('ZREM', leases, work)
    redis.call('ZADD', claims, now + 5000, work)
    rejoin_lane(work, claim[2], claim[5] or '', claim[6])
    report('again', work, claim, token)
  end
end

for _, work in ipairs(due(claims)) do
  local claim = held(work, 'since')
  if not claim[1] then
    redis.call('ZREM', claims, work)
  else
    redis.call('ZADD', claims, now + math.min(60000, math.max(5000, 2 * (now - tonumber(claim[4])))), work)
    report('due', work, claim, claim[1])
  end
end
-- The start of the unbroken series of passes.
local since = math.min(now, tonumber(redis.call('GET', swept) or now))
redis.call('SET', swept, string.format('%.0f', since), 'EX', 10)
keep_fencing_token()
return found
