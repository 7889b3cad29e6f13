-- Requeues the works of the deferral protocol that started with a job: they wait with it again.
local function requeue_works(job, wait_ms)
  local wanted = redis.call('HGETALL', 'fetch:{0}:wanted:' .. job.key)
  for place = 1, #wanted, 2 do
    requeue_work(wanted[place], string.match(wanted[place + 1], '^(%d+) '), wait_ms, rules.unknown_ms, job.token)
  end
end
