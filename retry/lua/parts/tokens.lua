-- After a fail-over or a restart another server answers: it may lack the last writes, and have another clock. Tokens then
-- go on from a minute later, so that none is given twice; and waiting clients get the time to ask again.
local is_same_server = false  -- known in this step

local function notice_other_server(now_us)
  if is_same_server then return end
  is_same_server = true
  local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  local known = redis.call('GET', root .. ':server')
  if known == run_id then return end
  if known then
    local last = math.max(tonumber(redis.call('GET', root .. ':token') or 0), now_us)
    redis.call('SET', root .. ':token', string.format('%.0f', last + 60000000))
    redis.call('DEL', root .. ':swept')
  end
  redis.call('SET', root .. ':server', run_id)
end

-- The next fencing token of the partition. Tokens follow the clock, in microseconds.
local function next_token()
  local time = redis.call('TIME')
  local now_us = time[1] * 1000000 + time[2]
  notice_other_server(now_us)
  local last = tonumber(redis.call('GET', root .. ':token') or 0)
  local token = string.format('%.0f', math.max(last + 1, now_us))
  redis.call('SET', root .. ':token', token)
  return token
end
