-- Repairs moments after the clock was set back: else they would come so much later.
-- Moments of other servers, as the expiry of an address, stay.
local follow_the_clock
do
  local MOST_BACK_MS = 5000  -- by less it is not worth the work
  local TIMES = {'next', 'block_until', 'bytes_until', 'crawl_until', 'circuit_until', 'opened_at', 'trouble_since', 'cut_at',
    'asked_at', 'ok_at'}

  local function bring_forward(set, back)
    local all = redis.call('ZRANGE', set, 0, -1, 'WITHSCORES')
    for place = 1, #all, 2 do redis.call('ZADD', set, tonumber(all[place + 1]) - back, all[place]) end
  end

  follow_the_clock = function()
    local back = tonumber(redis.call('GET', 'fetch:{0}:clock') or now) - now
    redis.call('SET', 'fetch:{0}:clock', whole(now))
    if back < MOST_BACK_MS then return end
    for _, set in ipairs({'fetch:{0}:leases', 'fetch:{0}:later', 'fetch:{0}:stalls', 'fetch:{0}:idle', 'fetch:{0}:fetchers'}) do
      bring_forward(set, back)
    end
    for _, scope in ipairs(redis.call('ZRANGE', 'fetch:{0}:domains', 0, -1)) do
      local d = domain(scope)
      for _, name in ipairs(TIMES) do
        if d[name] > now then d[name] = d[name] - back end
      end
      settle(d)
    end
  end
end
