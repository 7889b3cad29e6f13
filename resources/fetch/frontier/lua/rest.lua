-- Returns how long each of these domains is blocked: it may have asked for that since a job of it was claimed.
-- ARGV: rules scope...   -> for each wait_ms
local time = redis.call('TIME')
local now = cjson.decode(ARGV[1]).now or time[1] * 1000 + time[2] / 1000  -- rules.now: a test's clock
local waits = {}
for place = 2, #ARGV do
  local blocked = tonumber(redis.call('HGET', 'fetch:{0}:domain:' .. ARGV[place], 'block_until') or 0)
  waits[#waits + 1] = string.format('%.0f', math.max(0, blocked - now))
end
return waits
