-- Moves a job to another lane or priority: a waiting one changes its queue, one in flight counts in the
-- other lane from now on. Later waiters do not move it back.
-- needs: retry.gathered domain owners line job
-- ARGV: rules key lane priority('' as it is)   -> 1 | 0

-- At most so many are known, the latest ones.
local function note_slow(key)
  redis.call('ZADD', 'fetch:{0}:slow', now + rules.slow_kept_ms, key)
  redis.call('ZREMRANGEBYSCORE', 'fetch:{0}:slow', '-inf', now)
  redis.call('ZREMRANGEBYRANK', 'fetch:{0}:slow', 0, -1 - rules.most_slow)
end

local job = job_of(ARGV[2])
if not job or job.state == 'doomed' or job.state == 'ending' then return 0 end
local d, lane, priority = domain(job.scope), ARGV[3], tonumber(ARGV[4]) or job.priority
local state = job.state
if state == 'queued' then take(d, job) end
-- The speed of this download decides on the lane of the next one.
if state == 'running' and lane == 'slow' then note_slow(job.key) end
if state == 'running' and lane == 'fast' then redis.call('ZREM', 'fetch:{0}:slow', job.key) end
if state == 'running' and lane ~= job.lane then
  d.slow_in_flight = d.slow_in_flight + (lane == 'slow' and 1 or -1)
end
set_job(job, 'lane', lane, 'priority', priority, 'learnt', lane ~= job.lane and '1' or job.learnt or '0')
if state == 'queued' then put(d, job) end
settle(d)
count_queued()
wake()
return 1
