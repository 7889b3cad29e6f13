-- Starts the first work of a lane. Each message in a lane stands for one work there, of the partition of the one that it
-- names.
-- needs: root gathered tokens turns claim_skip lane_rounds claim_start
-- KEYS: root   ARGV: terms lane nonce work(of the message)   -> {1 started | 2 skipped | 0 neither, work, token, spec}
local terms, lane, nonce, named = cjson.decode(ARGV[1]), unpack(ARGV, 2, 4)

-- A call whose reply was lost is made again, with its nonce.
local starter = root .. ':starter:' .. nonce
local work = redis.call('GET', starter) or first_of_lane(lane) or named
local held = redis.call('HMGET', root .. ':claim:' .. work, 'token', 'spec')
if not held[1] then  -- its claim is lost
  leave_lane(work, lane, '')
  return {0, work, '0', ''}
end
redis.call('SET', starter, work, 'PX', terms.lease_ms)
local outcome, token = start_work(work, held[1], nonce, terms)
leave_lanes()
keep_fencing_token()
write_gathered()
return {outcome, work, token, held[2]}
