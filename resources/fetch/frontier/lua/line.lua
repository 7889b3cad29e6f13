-- Counts the jobs that are taken before a job of its domain: those of the same lane with a better priority, and those
-- of its own queue whose turn comes earlier. -1 for a job in flight, or for none.
-- needs: retry.root retry.turns
-- ARGV: work, whose claim names its job   -> number
local key = redis.call('HGET', root .. ':claim:' .. ARGV[1], 'job') or ''
local job = redis.call('HMGET', 'fetch:{0}:job:' .. key, 'state', 'scope', 'lane', 'priority')
if job[1] ~= 'queued' then return -1 end
local function queue(priority) return 'fetch:{0}:jobs:' .. job[2] .. ':' .. job[3] .. ':' .. priority end
local before = count_in_turn(queue(job[4]), key)
for better = 1, tonumber(job[4]) - 1 do before = before + redis.call('ZCARD', queue(better)) end
return before
