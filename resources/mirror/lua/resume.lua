-- Resumes the continuations of settled URLs: moves their names to the set of names to resume.
-- KEYS: going_on (that set), then the set of names of each URL
local going_on = KEYS[1]
for place = 2, #KEYS do
  local names = redis.call('SMEMBERS', KEYS[place])
  for _, name in ipairs(names) do redis.call('SADD', going_on, name) end
  redis.call('DEL', KEYS[place])
end
return #KEYS - 1
