-- Reads the limits that admins have set. Changes nothing.
-- ARGV: scopes   -> for each: delay_ms cap bytes paused kind, '' where nothing is set
local reply = {}
for place, scope in ipairs(ARGV) do
  local set = redis.call('HMGET', 'fetch:{0}:domain:' .. scope, 'set_delay', 'set_cap', 'set_bytes', 'set_paused')
  local kind = redis.call('HGET', 'fetch:{0}:scopes', scope)
  reply[place] = {set[1] or '', set[2] or '', set[3] or '', set[4] or '', kind or ''}
end
return reply
