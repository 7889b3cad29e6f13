-- Claims whose time has come: queued ones are to be published again; a lapsed lease gets a new
-- token and is queued again the first time, and is handed back as `lapsed` the second time in a row.
-- KEYS: claims token   ARGV: most   -> list of {what, work, token, lane, spec}
local claims, counter = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = {}
for _, work in ipairs(redis.call('ZRANGEBYSCORE', claims, '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local claim = 'retry:claim:' .. work
  local held = redis.call('HMGET', claim, 'token', 'state', 'lane', 'spec', 'lapses', 'since')
  local token = held[1]
  if not token then
    redis.call('ZREM', claims, work)
  elseif held[2] == 'running' and tonumber(held[5]) >= 1 then
    redis.call('ZADD', claims, now + 5000, work)
    found[#found + 1] = {'lapsed', work, token, held[3], held[4]}
  else
    local patience = 5000
    if held[2] == 'running' then
      token = string.format('%.0f', math.max(tonumber(redis.call('GET', counter) or 0) + 1,
        time[1] * 1000000 + time[2]))
      redis.call('SET', counter, token)
      redis.call('HSET', claim, 'token', token, 'state', 'queued', 'lapses', held[5] + 1)
      redis.call('ZADD', 'retry:queued:' .. held[3], now, work)
    else
      patience = math.min(60000, math.max(5000, 2 * (now - tonumber(held[6]))))
    end
    redis.call('ZADD', claims, now + patience, work)
    found[#found + 1] = {'again', work, token, held[3], held[4]}
  end
end
return found
