-- Brings the expiry times of some keys forward after this server's clock was set back: marks and locks of every
-- app would stand for so much longer. A key that was written since then, and lasts longer than the clock was set back
-- by, ends early: marks are made anew, and two holders of a lock at once do no harm. In portions, so that no client waits for it; a pass that is killed is continued.
-- KEYS: setbacks, a list of milliseconds and cursor   ARGV: keys_at_once   -> 1 if there is more to do | 0
local setbacks = KEYS[1]
local back, cursor = string.match(redis.call('LINDEX', setbacks, 0) or '', '^(%d+) (%d+)$')
if not back then return 0 end
local found = redis.call('SCAN', cursor, 'COUNT', ARGV[1])
for _, key in ipairs(found[2]) do
  local left = redis.call('PTTL', key)
  if left > tonumber(back) then redis.call('PEXPIRE', key, string.format('%.0f', left - back)) end
end
if found[1] == '0' then
  redis.call('LPOP', setbacks)
else
  redis.call('LSET', setbacks, 0, back .. ' ' .. found[1])
end
return redis.call('EXISTS', setbacks)
