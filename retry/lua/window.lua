-- Adds to the count of a member in one window of the clock. Beyond so many members all others share one count.
-- KEYS: counts   ARGV: member number most_members kept_seconds   -> count
local counts, member = KEYS[1], ARGV[1]
if redis.call('HEXISTS', counts, member) == 0 and redis.call('HLEN', counts) >= tonumber(ARGV[3]) then member = '' end
local count = redis.call('HINCRBY', counts, member, ARGV[2])
redis.call('EXPIRE', counts, ARGV[4])  -- no other window has this key
return count
