-- How long ago work of each lane has started in this partition, by this server's clock.
-- KEYS: root   -> lane milliseconds, in turn
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('HGETALL', KEYS[1] .. ':started')
for place = 2, #found, 2 do found[place] = string.format('%.0f', now - found[place]) end
return found
