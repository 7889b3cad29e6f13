-- Starts one copy of a piece of work.
-- needs: root gathered tokens turns claim_skip lane_rounds claim_start
-- KEYS: root   ARGV: terms work token nonce   -> {1 started | 2 skipped | 0 neither, work, token, ''}
local outcome, token = start_work(ARGV[2], ARGV[3], ARGV[4], cjson.decode(ARGV[1]))
leave_lanes()
keep_fencing_token()
write_gathered()
return {outcome, ARGV[2], token, ''}
