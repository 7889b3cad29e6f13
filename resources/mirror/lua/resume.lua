-- URLs have ended: the names that were left beside them are to go on. Nothing stays beside them.
-- KEYS: going_on, then the set of names of each URL
local going_on = KEYS[1]
for place = 2, #KEYS do
  local names = redis.call('SMEMBERS', KEYS[place])
  for _, name in ipairs(names) do redis.call('SADD', going_on, name) end
  redis.call('DEL', KEYS[place])
end
return #KEYS - 1
