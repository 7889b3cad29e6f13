-- Abandons a queued claim whose work was not handed over, and tells the clients that joined it.
-- needs: turns claim_skip lane_rounds
-- KEYS: claim claims   ARGV: work token channel   -> 1 | 0
local held = redis.call('HMGET', KEYS[1], 'token', 'state', 'lane', 'client')
if held[1] ~= ARGV[2] or held[2] ~= 'queued' then return 0 end
withdraw_from_lane(ARGV[1], held[3], held[4] or '')
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('PUBLISH', ARGV[3], 'abandoned ' .. ARGV[1])
return 1
