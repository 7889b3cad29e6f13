-- Abandons a queued claim whose work was not handed over, and tells the clients that joined it.
-- needs: root turns claim_skip lane_rounds
-- KEYS: root   ARGV: work token channel   -> 1 | 0
local claim = root .. ':claim:' .. ARGV[1]
local held = redis.call('HMGET', claim, 'token', 'state', 'lane', 'client')
if held[1] ~= ARGV[2] or held[2] ~= 'queued' then return 0 end
withdraw_from_lane(ARGV[1], held[3], held[4] or '')
redis.call('DEL', claim)
redis.call('ZREM', root .. ':claims', ARGV[1])
redis.call('PUBLISH', ARGV[3], 'abandoned ' .. ARGV[1])
return 1
