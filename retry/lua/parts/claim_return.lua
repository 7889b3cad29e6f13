-- Queues a running claim again, with the same token: its work could not be done yet.
-- Only for the copy of the work that had started with that nonce. Its worker lives: an earlier lapse no longer counts.
-- -> 1 | 0 (another worker holds the claim by now)
local function requeue_work(work, token, wait_ms, default_ms, nonce)
  local claim = root .. ':claim:' .. work
  local held = redis.call('HMGET', claim, 'token', 'state', 'lane', 'kind', 'starter', 'client', 'place')
  if held[1] ~= token or held[2] ~= 'running' or held[5] ~= nonce then return 0 end
  local time = read_time()
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local mean = tonumber(redis.call('GET', root .. ':duration:' .. held[4]) or default_ms)
  local function whole(x) return string.format('%.0f', x) end
  redis.call('HSET', claim, 'state', 'queued', 'since', whole(now), 'expected', whole(now + wait_ms + mean))
  redis.call('HDEL', claim, 'lapsed')
  redis.call('ZREM', root .. ':leases', work)
  redis.call('ZADD', root .. ':claims', now + math.min(60000, math.max(5000, 2 * (wait_ms + mean))), work)
  rejoin_lane(work, held[3], held[6] or '', held[7])
  return 1
end
