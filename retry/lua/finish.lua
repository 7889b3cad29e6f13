-- The only end of a claim: done mark, failure record, recorded duration, and one publish.
-- The mark outlives the time it is in force: it fences off whoever had the claim before.
-- KEYS: claim done failure claims leases
-- ARGV: work token outcome done_ms fence_ms duration_ms kept_ms channel | status detail base_ms max_ms luck retry_ms
-- -> 1 | 0 (somebody else holds the claim by now)
local claim, done, failure, claims, leases = unpack(KEYS)
local work, token, outcome = ARGV[1], ARGV[2], ARGV[3]
local held = redis.call('HMGET', claim, 'token', 'lane', 'kind')
if held[1] and held[1] ~= token then return 0 end
if not held[1] then  -- lost with the server's data, or ended already
  local mark = redis.call('HGET', done, 'token')
  if mark and tonumber(mark) >= tonumber(token) then return mark == token and 1 or 0 end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function record(name, ms)
  local key = 'retry:duration:' .. name
  local old = tonumber(redis.call('GET', key) or ms)
  redis.call('SET', key, string.format('%.1f', old * 0.8 + ms * 0.2), 'PX', ARGV[7])
end

if outcome == 'stored' then
  redis.call('DEL', failure)
  if held[1] then
    record(held[3], tonumber(ARGV[6]))
    record(held[2], tonumber(ARGV[6]))
  end
elseif outcome == 'failed' then
  local base, max, luck, asked = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
  local before = tonumber(redis.call('HGET', failure, 'count') or 0)
  -- Exponential back-off with full jitter; never under a second, so that nobody is sent in a circle.
  local wait = math.max(1000, luck * math.min(max, base * 2 ^ math.min(before, 30)))
  if asked >= 0 then wait = math.max(1000, asked) end
  redis.call('HSET', failure, 'count', before + 1, 'status', ARGV[9], 'detail', ARGV[10],
    'until', string.format('%.0f', now + wait))
  redis.call('PEXPIRE', failure, string.format('%.0f', wait + 2 * max))
end

redis.call('DEL', claim)
redis.call('ZREM', claims, work)
redis.call('ZREM', leases, work)
if held[2] then redis.call('ZREM', 'retry:queued:' .. held[2], work) end
redis.call('HSET', done, 'token', token, 'outcome', outcome, 'until', string.format('%.0f', now + ARGV[4]))
redis.call('PEXPIRE', done, ARGV[5])
redis.call('PUBLISH', ARGV[8], outcome .. ' ' .. work)
return 1
