-- Returns the number of a content's requests, each at its weight of now.
-- KEYS: popular decays   ARGV: kind key   -> number as a string
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
local landmark, life = string.match(redis.call('HGET', KEYS[2], ARGV[1]) or '', '^(%S+) (%S+)$')
if not score or not landmark then return '0' end
local time = redis.call('TIME')
local age = (time[1] + time[2] / 1000000 - landmark) / life
return string.format('%.6g', score * 2 ^ -math.max(0, age))
