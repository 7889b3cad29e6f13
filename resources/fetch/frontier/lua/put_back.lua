-- Queues jobs again that were handed to a fetcher and did not arrive there. Not counted as their lapse.
-- Works that started with them wait for their turn again.
-- needs: retry.gathered domain owners line job retry.root retry.turns retry.claim_skip retry.lane_rounds retry.claim_return works
-- ARGV: rules fetcher | the keys of the jobs that it holds   -> the number of jobs queued again
local held, back = {}, 0
for place = 3, #ARGV do held[ARGV[place]] = true end

local function put_back(job)
  local d = domain(job.scope)
  redis.call('ZREM', 'fetch:{0}:leases', job.key)
  requeue_works(job, 0)
  if job.state == 'ending' then
    doom(job, job.why)
  else
    if job.state == 'running' then leave_flight(d, job) end
    if job.state == 'running' and d.next == job.slot_next then d.next = job.slot_before end
    put(d, job)
  end
  settle(d)
  back = back + 1
end

for _, key in ipairs(redis.call('ZRANGE', 'fetch:{0}:leases', 0, -1)) do
  if not held[key] and redis.call('HGET', job_name(key), 'worker') == ARGV[2] then put_back(job_of(key)) end
end
count_queued()
wake()
return back
