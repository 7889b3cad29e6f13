-- Returns the place of claimed work: its lane, and how many works of the lane come before it; -1 if it is not queued.
-- Nothing for work without a claim.
-- needs: root turns claim_skip lane_rounds
-- KEYS: root   ARGV: work   -> lane before
local held = redis.call('HMGET', root .. ':claim:' .. ARGV[1], 'lane', 'state')
if not held[1] then return {} end
local is_queued = held[2] == 'queued' and redis.call('ZSCORE', root .. ':queued:' .. held[1], ARGV[1])
return {held[1], is_queued and count_before(ARGV[1], held[1]) or -1}
