-- The beginning of all names of one partition of the server, as retry:{3}: a script touches no other partition.
local root = KEYS[1]

-- The server's time: seconds, microseconds. The same for all of the step.
local read_time
do
  local time
  read_time = function()
    time = time or redis.call('TIME')
    return time
  end
end
