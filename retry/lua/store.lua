-- Stores content, unless content with a newer token is there. The same body keeps its time of change. Processes that
-- subscribe to the channel are told of it, with a small body in the message. The channel is that of the content in this
-- database: all databases of a server share the names of channels.
-- KEYS: content   ARGV: token expire_ms meta body digest now channel(or "") work(of waiting clients) most_told_bytes
-- -> 1 | 0
local held = redis.call('HMGET', KEYS[1], 'token', 'digest', 'changed')
if held[1] and tonumber(held[1]) > tonumber(ARGV[1]) then return 0 end
local changed = held[2] == ARGV[5] and held[3] or ARGV[6]
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'meta', ARGV[3], 'body', ARGV[4], 'digest', ARGV[5], 'changed', changed)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
if ARGV[7] ~= '' and tonumber(ARGV[2]) > 0 and redis.call('PUBSUB', 'NUMSUB', ARGV[7])[2] > 0 then
  local notice = ARGV[8] .. '\n' .. KEYS[1]
  if #ARGV[4] <= tonumber(ARGV[9]) then
    notice = table.concat({notice, ARGV[2], changed, ARGV[3], ARGV[4]}, '\n')
  end
  redis.call('PUBLISH', ARGV[7], notice)
end
return 1
