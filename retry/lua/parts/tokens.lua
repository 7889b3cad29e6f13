-- The next fencing token of the partition. Tokens follow the clock, in microseconds: those after a fail-over are later
-- than those that it has forgotten.
local function next_token()
  local time = redis.call('TIME')
  local last = tonumber(redis.call('GET', root .. ':token') or 0)
  local token = string.format('%.0f', math.max(last + 1, time[1] * 1000000 + time[2]))
  redis.call('SET', root .. ':token', token)
  return token
end
