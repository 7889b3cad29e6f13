-- What a fetcher was handed, and what has not come there, goes back to its place: its lapse is nobody's fault.
-- Works that started with it wait for their turn again.
-- needs: domain line job retry.requeueing
-- ARGV: rules worker default_ms | the keys of the jobs that it holds   -> how many went back
local held, back = {}, 0
for place = 4, #ARGV do held[ARGV[place]] = true end

local function requeue_works(job)
  local wanted = redis.call('HGETALL', 'fetch:wanted:' .. job.key)
  for place = 1, #wanted, 2 do
    requeue_work(wanted[place], string.match(wanted[place + 1], '^(%d+) '), 0, ARGV[3], job.token)
  end
end

local function put_back(job)
  local d = domain(job.scope)
  redis.call('ZREM', 'fetch:leases', job.key)
  requeue_works(job)
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

for _, key in ipairs(redis.call('ZRANGE', 'fetch:leases', 0, -1)) do
  if not held[key] and redis.call('HGET', job_name(key), 'worker') == ARGV[2] then put_back(job_of(key)) end
end
count_queued()
wake()
return back
