-- Reaps lapsed leases, due retries, expired URLs and stalled domains. A few of
-- each in every call, so that no call takes long.
local due, reap
do
  local FEW = 16

  due = function(set, most) return redis.call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, most or FEW) end

  -- The fetcher is gone: the job goes back to its place. A job that has lost its fetcher too often in a row becomes a
  -- dead job.
  local function reap_leases()
    for _, key in ipairs(due('fetch:{0}:leases')) do
      redis.call('ZREM', 'fetch:{0}:leases', key)
      local job = job_of(key)
      if job and (job.state == 'running' or job.state == 'holding') then
        local d = domain(job.scope)
        if job.state == 'running' then leave_flight(d, job) end
        local in_a_row = job.lapsed and now - job.lapsed < rules.lapse_kept_ms
        set_job(job, 'lapses', in_a_row and job.lapses + 1 or 1, 'lapsed', now)
        if job.lapses >= rules.most_lapses then
          requeue_works(job, 0)  -- no request follows: a fetcher that still lives loses nothing by it
          doom(job, 'lapsed')
        else
          put(d, job)
        end
        settle(d)
      elseif job then  -- its waiters were not told of its failure
        requeue_works(job, 0)
        doom(job, job.why)
      end
    end
  end

  local function reap_later()
    for _, key in ipairs(due('fetch:{0}:later')) do
      local job = job_of(key)
      local d = domain(job.scope)
      take(d, job)
      put(d, job)
      settle(d)
    end
  end

  local function reap_expired()
    for _, key in ipairs(due('fetch:{0}:expiring')) do
      local job = job_of(key)
      local d = domain(job.scope)
      take(d, job)
      doom(job, 'expired')
      settle(d)
    end
  end

  -- No success for so long in spite of attempts: the domain's waiting jobs become dead jobs.
  local function reap_stalled()
    for _, scope in ipairs(due('fetch:{0}:stalls', 2)) do
      local d, left = domain(scope), FEW
      for _, lane in ipairs(LANES) do
        for priority = 1, 3 do
          local queue = 'fetch:{0}:jobs:' .. scope .. ':' .. lane .. ':' .. priority
          for _, key in ipairs(left > 0 and redis.call('ZRANGE', queue, 0, left - 1) or {}) do
            local job = job_of(key)
            take(d, job)
            doom(job, 'stalled')
            left = left - 1
          end
        end
      end
      if left > 0 then  -- later jobs have as long again
        d.trouble_since = now
        redis.call('ZADD', 'fetch:{0}:stalls', now + rules.stall_ms, scope)
        if d.opens == 0 and d.block_until <= now then
          d.trouble_since = 0
          redis.call('ZREM', 'fetch:{0}:stalls', scope)
        end
      end
      settle(d)
    end
  end

  reap = function()
    reap_leases()
    reap_later()
    reap_expired()
    reap_stalled()
  end
end
