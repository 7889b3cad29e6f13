-- Reads the records of many domains, for people. Changes nothing.
-- ARGV: scopes   -> now_ms fields fields ...
local time = redis.call('TIME')
local reply = {string.format('%.3f', time[1] * 1000 + time[2] / 1000)}
for place, scope in ipairs(ARGV) do reply[place + 1] = redis.call('HGETALL', 'fetch:{0}:domain:' .. scope) end
return reply
