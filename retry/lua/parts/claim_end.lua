-- The only end of a claim: done mark, failure record, recorded duration, and one message.
-- The mark outlives the time it is in force: it fences off workers that had the claim before.
-- terms: done_ms fence_ms kept_ms channel   failure, of failed work: status detail base_ms max_ms luck retry_ms
-- -> 1 | 0 (another worker holds the claim by now)
local function finish_work(terms, work, token, outcome, duration_ms, failure)
  local claim, done, failed = 'retry:claim:' .. work, 'retry:done:' .. work, 'retry:failure:' .. work
  local held = redis.call('HMGET', claim, 'token', 'lane', 'kind')
  if held[1] and held[1] ~= token then return 0 end
  if not held[1] then  -- lost with the server's data, or ended already
    local mark = redis.call('HGET', done, 'token')
    if mark and tonumber(mark) >= tonumber(token) then return mark == token and 1 or 0 end
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)

  local function record(name, ms)
    local key = 'retry:duration:' .. name
    local old = tonumber(redis.call('GET', key) or ms)
    redis.call('SET', key, string.format('%.1f', old * 0.8 + ms * 0.2), 'PX', terms.kept_ms)
  end

  if outcome == 'stored' then
    redis.call('DEL', failed)
    if held[1] then
      record(held[3], tonumber(duration_ms))
      record(held[2], tonumber(duration_ms))
    end
  elseif outcome == 'failed' then
    local status, detail = failure[1], failure[2]
    local base, max, luck, asked = tonumber(failure[3]), tonumber(failure[4]), tonumber(failure[5]), tonumber(failure[6])
    local before = tonumber(redis.call('HGET', failed, 'count') or 0)
    -- Exponential back-off with full jitter; never under a second, so that no client goes in a circle.
    local wait = math.max(1000, luck * math.min(max, base * 2 ^ math.min(before, 30)))
    if asked >= 0 then wait = math.max(1000, asked) end
    redis.call('HSET', failed, 'count', before + 1, 'status', status, 'detail', detail,
      'until', string.format('%.0f', now + wait))
    redis.call('PEXPIRE', failed, string.format('%.0f', wait + 2 * max))
  end

  redis.call('DEL', claim)
  redis.call('ZREM', 'retry:claims', work)
  redis.call('ZREM', 'retry:leases', work)
  if held[2] then redis.call('ZREM', 'retry:queued:' .. held[2], work) end
  redis.call('HSET', done, 'token', token, 'outcome', outcome, 'until', string.format('%.0f', now + terms.done_ms))
  redis.call('PEXPIRE', done, terms.fence_ms)
  redis.call('PUBLISH', terms.channel, outcome .. ' ' .. work)
  return 1
end
