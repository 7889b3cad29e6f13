-- The only end of a claim: done mark, failure record, recorded duration, and one message. Without its claim
-- no work ends: a worker that was frozen, for however long, changes nothing of what came after it.
-- terms: done_ms kept_ms most_failures channel   failure, of failed work: status detail base_ms max_ms luck retry_ms
-- -> 1 | 0 (another worker holds the claim by now, or there is none)
-- A script that ends any work ends with write_gathered() and keep_durations(), and ends no work twice before.
local keep_durations, finish_work
do
  local durations = {}  -- as this step changes them

  keep_durations = function(terms)
    for name, ms in pairs(durations) do
      redis.call('SET', root .. ':duration:' .. name, string.format('%.1f', ms), 'PX', terms.kept_ms)
    end
  end

  local function record(name, ms)
    local old = durations[name] or tonumber(redis.call('GET', root .. ':duration:' .. name) or ms)
    durations[name] = old * 0.8 + ms * 0.2
  end

  -- Beyond so many records, those that end soonest are forgotten: work can fail as often as there are addresses.
  local function bound_failures(terms, work, now, kept_ms)
    redis.call('ZADD', root .. ':failures', now + kept_ms, work)
    redis.call('ZREMRANGEBYSCORE', root .. ':failures', '-inf', now)
    local excess = redis.call('ZCARD', root .. ':failures') - terms.most_failures
    local over = excess > 0 and redis.call('ZPOPMIN', root .. ':failures', excess) or {}
    for place = 1, #over, 2 do redis.call('DEL', root .. ':failure:' .. over[place]) end
  end

  local function note_failure(terms, work, failure)
    local time, failed = read_time(), root .. ':failure:' .. work
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local status, detail = failure[1], failure[2]
    local base, max, luck, asked = tonumber(failure[3]), tonumber(failure[4]), tonumber(failure[5]), tonumber(failure[6])
    local before = tonumber(redis.call('HGET', failed, 'count') or 0)
    -- Exponential back-off with full jitter; never under a second, so that no client goes in a circle.
    local wait = math.max(1000, luck * math.min(max, base * 2 ^ math.min(before, 30)))
    if asked >= 0 then wait = math.max(1000, asked) end
    redis.call('HSET', failed, 'count', before + 1, 'status', status, 'detail', detail,
      'until', string.format('%.0f', now + wait))
    redis.call('PEXPIRE', failed, string.format('%.0f', wait + 2 * max))
    bound_failures(terms, work, now, wait + 2 * max)
  end

  finish_work = function(terms, work, token, outcome, duration_ms, failure)
    local claim, done = root .. ':claim:' .. work, root .. ':done:' .. work
    local held = redis.call('HMGET', claim, 'token', 'lane', 'kind', 'client', 'state')
    if not held[1] then return redis.call('HGET', done, 'token') == token and 1 or 0 end  -- a repeated call
    if held[1] ~= token then return 0 end
    gather_deletion(claim, true)
    if outcome == 'stored' then
      gather_deletion(root .. ':failure:' .. work)
      gather_removal(root .. ':failures', work)
      record(held[3], tonumber(duration_ms))
      record(held[2], tonumber(duration_ms))
    elseif outcome == 'failed' then
      note_failure(terms, work, failure)
    end
    if held[5] ~= 'running' then leave_lane(work, held[2], held[4]) end  -- running work has left its lane
    redis.call('HSET', done, 'token', token, 'outcome', outcome)
    redis.call('PEXPIRE', done, terms.done_ms)
    redis.call('PUBLISH', terms.channel, outcome .. ' ' .. work)
    if held[5] ~= 'running' then gather_removal(root .. ':claims', work) end
    gather_removal(root .. ':leases', work)
    return 1
  end
end
