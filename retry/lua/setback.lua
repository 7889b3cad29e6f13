-- Brings the expiry times of some keys forward after this server's clock was set back: marks and locks of every
-- app would stand for so much longer. A key that was written since then, and lasts longer than the clock was set back
-- by, ends early: marks are made anew, and two holders of a lock at once do no harm. In portions, so that no client waits
-- for it; a pass that is killed is continued. Each partition does so for its own keys; the first of a node for those of
-- none.
-- KEYS: root   ARGV: keys_at_once tag('{3}') is_first('1'|'')   -> 1 if there is more to do | 0
local setbacks = KEYS[1] .. ':setbacks'  -- a list of milliseconds and cursor
local back, cursor = string.match(redis.call('LINDEX', setbacks, 0) or '', '^(%d+) (%d+)$')
if not back then return 0 end
local found = redis.call('SCAN', cursor, 'COUNT', ARGV[1])
for _, key in ipairs(found[2]) do
  if string.find(key, ARGV[2], 1, true) or ARGV[3] == '1' and not string.find(key, '{%d+}') then
    local left = redis.pcall('PTTL', key)  -- refused for keys of other partitions' nodes
    if type(left) == 'number' and left > tonumber(back) then
      redis.call('PEXPIRE', key, string.format('%.0f', left - back))
    end
  end
end
if found[1] == '0' then
  redis.call('LPOP', setbacks)
else
  redis.call('LSET', setbacks, 0, back .. ' ' .. found[1])
end
return redis.call('EXISTS', setbacks)
