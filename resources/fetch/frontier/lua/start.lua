-- Starts a work of the deferral protocol that waits for a held job.
-- needs: retry.root retry.gathered retry.tokens retry.turns retry.claim_skip retry.lane_rounds retry.claim_start starts
-- ARGV: key token work terms   -> 1 started | 2 skipped | 0 neither, token
local key, job_token, work, terms = unpack(ARGV)
local waiter = redis.call('HGET', 'fetch:{0}:wanted:' .. key, work)
if not waiter then return {0, '0'} end  -- it was withdrawn
local outcome, token = start_waiting(key, job_token, work, waiter, cjson.decode(terms))
leave_lanes()
keep_fencing_token()
write_gathered()
return {outcome, token}
