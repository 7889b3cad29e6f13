-- Starts a work of the deferral protocol that waits for a job. The job keeps the token that it has then.
-- -> 1 started | 2 skipped | 0 neither, token, the waiter as it is kept
local function start_waiting(key, job_token, work, waiter, terms)
  local before = string.match(waiter, '^%d+')
  local outcome, token = start_work(work, before, job_token, terms)
  if token ~= before then
    waiter = token .. string.sub(waiter, #before + 1)
    redis.call('HSET', 'fetch:{0}:wanted:' .. key, work, waiter)
  end
  return outcome, token, waiter
end
