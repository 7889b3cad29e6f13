-- Reads a domain's record, for people. Changes nothing.
-- ARGV: scope   -> now_ms fields
local time = redis.call('TIME')
return {string.format('%.3f', time[1] * 1000 + time[2] / 1000), redis.call('HGETALL', 'fetch:domain:' .. ARGV[1])}
