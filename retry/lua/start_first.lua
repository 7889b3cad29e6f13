-- Starts the first work of the first of these lanes that has one. A worker of the lanes sends this call behind its wait
-- for a message, so that both replies come together.
-- needs: root gathered tokens turns claim_skip lane_rounds claim_start
-- KEYS: root   ARGV: terms nonce | lanes   -> {1 started | 2 skipped | 0 neither, work, token, spec, lane}
local terms, nonce = cjson.decode(ARGV[1]), ARGV[2]

-- A call whose reply was lost is made again, with its nonce.
local starter = root .. ':starter:' .. nonce
local work, lane = redis.call('GET', starter), nil
for place = 3, #ARGV do
  if work then break end
  lane = ARGV[place]
  work = first_of_lane(lane)
end
if not work then return {0, '', '0', '', ''} end
local held = redis.call('HMGET', root .. ':claim:' .. work, 'token', 'spec', 'lane')
if not held[1] then  -- its claim is lost
  if lane then leave_lane(work, lane, '') end
  return {0, work, '0', '', ''}
end
redis.call('SET', starter, work, 'PX', terms.lease_ms)
local outcome, token = start_work(work, held[1], nonce, terms)
leave_lanes()
keep_fencing_token()
write_gathered()
return {outcome, work, token, held[2] or '', lane or held[3]}
