-- After a fail-over or a restart another server answers: it may lack the last writes, and have another clock. Tokens then
-- go on from a minute later, so that none is given twice; and waiting clients get the time to ask again.
local function notice_other_server(now_us)
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

local last_given = nil  -- in this step

-- The next fencing token of the partition. Tokens follow the clock, in microseconds. A script that has given any ends with
-- keep_fencing_token().
local function next_token()
  if last_given then
    last_given = last_given + 1
  else
    local time = read_time()
    local now_us = time[1] * 1000000 + time[2]
    notice_other_server(now_us)
    last_given = math.max(tonumber(redis.call('GET', root .. ':token') or 0) + 1, now_us)
  end
  return string.format('%.0f', last_given)
end

local function keep_fencing_token()
  if last_given then redis.call('SET', root .. ':token', string.format('%.0f', last_given)) end
end
