-- Withdraws a waiter of a job, or, without an id, the job. A job in flight goes on.
-- needs: retry.gathered domain owners line job
-- ARGV: rules key id('' all of it)   -> removed | kept | in_flight | unknown
local key, id = ARGV[2], ARGV[3]
local job = job_of(key)
if not job then return 'unknown' end
if id ~= '' then
  redis.call('HDEL', 'fetch:{0}:wanted:' .. key, id)
  if redis.call('HLEN', 'fetch:{0}:wanted:' .. key) > 0 then return 'kept' end
end
if job.state == 'doomed' then
  redis.call('ZREM', 'fetch:{0}:doomed', key)
elseif is_waiting(job) then
  local d = domain(job.scope)
  take(d, job)
  settle(d)
else
  return 'in_flight'
end
forget(job)
write_gathered()
count_queued()
return 'removed'
