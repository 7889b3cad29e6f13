-- The number of a content's requests, each at its weight of now.
local function weigh_requests(popular, decays, kind, key)
  local score = redis.call('ZSCORE', popular, key)
  local landmark, life = string.match(redis.call('HGET', decays, kind) or '', '^(%S+) (%S+)$')
  if not score or not landmark then return 0 end
  local time = redis.call('TIME')
  local age = (time[1] + time[2] / 1000000 - landmark) / life
  return score * 2 ^ -math.max(0, age)
end
