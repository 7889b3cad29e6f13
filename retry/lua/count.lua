-- Counts the requests of one slice of a log: hits, decayed popularity and the position behind the slice,
-- in one step. Counts nothing if another process has moved the position.
-- KEYS: root position hits groups decays
-- ARGV: before after kept_seconds half_life most_keys most_groups hits weights   (both as JSON)
--   hits: list of {kind, group, answer, exists, period, number}   weights: {kind: list of {key, weight}}
-- -> 1 | 0
local root, position, hits, groups, decays = unpack(KEYS)
local kept, half_life = tonumber(ARGV[3]), tonumber(ARGV[4])
local most_keys, most_groups = tonumber(ARGV[5]), tonumber(ARGV[6])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000

if (redis.call('GET', position) or '') ~= ARGV[1] then return 0 end
redis.call('SET', position, ARGV[2])

-- Groups come from addresses, and clients can invent those: only existing content makes a new group.
local function admitted(kind, group, exists)
  local name = kind .. ' ' .. group
  if redis.call('SISMEMBER', groups, name) == 1 then return name end
  if exists and redis.call('SCARD', groups) < most_groups then
    redis.call('SADD', groups, name)
    return name
  end
  return kind .. ' '
end

for _, hit in ipairs(cjson.decode(ARGV[7])) do
  local field = admitted(hit[1], hit[2], hit[4]) .. ' ' .. hit[3]
  redis.call('HINCRBY', hits, field, hit[6])
  if hit[5] >= 0 then
    local recent = string.format('%s:%.0f', hits, hit[5])
    redis.call('HINCRBY', recent, field, hit[6])
    redis.call('EXPIRE', recent, kept)
  end
end

-- Scores are as of a landmark. It moves before they grow too large for a number, when the half-life
-- has changed, and when the clock has been set back.
local function landmark_of(kind, popular)
  local held = redis.call('HGET', decays, kind)
  local landmark, life = string.match(held or '', '^(%S+) (%S+)$')
  local age = landmark and (now - landmark) / life
  if age and tonumber(life) == half_life and age > -1 and age < 500 then return tonumber(landmark) end
  if age then
    local faded = string.format('%.17g', 2 ^ -math.max(0, age))
    redis.call('ZUNIONSTORE', popular, 1, popular, 'WEIGHTS', faded)
    redis.call('ZREMRANGEBYSCORE', popular, '-inf', '(0.000001')
  end
  redis.call('HSET', decays, kind, string.format('%.6f %.17g', now, half_life))
  return now
end

for kind, weights in pairs(cjson.decode(ARGV[8])) do
  local popular = root .. ':popular:' .. kind
  local growth = 2 ^ ((now - landmark_of(kind, popular)) / half_life)
  for _, weight in ipairs(weights) do
    redis.call('ZINCRBY', popular, string.format('%.17g', weight[2] * growth), weight[1])
  end
  local excess = redis.call('ZCARD', popular) - most_keys
  if excess > 0 then redis.call('ZREMRANGEBYRANK', popular, 0, excess - 1) end
end
return 1
