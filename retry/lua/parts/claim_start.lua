-- Turns a queued claim into a running one. Of several copies of the work only one wins, and has a new token: a fail-over
-- may have forgotten that another one did before. If the lane is long and the work had no recent requests, the claim ends
-- at once instead, as `skipped`. The nonce names the copy: a copy whose reply was lost may call again.
-- terms: lease_ms default_ms channel done_ms skip_ms backlog_ms workers (by name, of each lane that skips)
-- -> 1 started | 2 skipped | 0 neither, token
-- A script that starts any work ends with leave_lanes(), keep_fencing_token() and write_gathered(), and starts none twice before.
local start_work
do
  local lanes_started, means, lease_until = {}, {}, nil  -- noted, and read, in this step
  local now_text, expected_texts = nil, {}  -- Redis has each number written anew
  local time = read_time()
  local now = time[1] * 1000 + math.floor(time[2] / 1000)

  local function mean(name, terms)
    means[name] = means[name] or tonumber(redis.call('GET', root .. ':duration:' .. name) or terms.default_ms)
    return means[name]
  end

  -- An unbroken series of the sweeper's passes for as long shows that this server could be reached:
  -- after an outage waiting clients are given the time to ask again.
  local function could_have_been_asked(terms)
    local since = tonumber(redis.call('GET', root .. ':swept'))
    return since and now - since > terms.skip_ms
  end

  local function is_unwanted(lane, asked, aged, terms)
    local workers = terms.workers[lane]
    return terms.skip_ms > 0 and workers and not aged and asked and now - asked > terms.skip_ms
      and could_have_been_asked(terms) and count_in_lane(lane) * mean(lane, terms) / workers > terms.backlog_ms
  end

  start_work = function(work, token, nonce, terms)
    local claim = root .. ':claim:' .. work
    local held = redis.call('HMGET', claim, 'token', 'state', 'lane', 'kind', 'starter', 'asked', 'aged', 'client')
    if held[2] == 'running' and held[5] == nonce then return 1, held[1] end
    if held[1] ~= token or held[2] ~= 'queued' then return 0, token end
    local lane = held[3]
    local unwanted = is_unwanted(lane, tonumber(held[6]), held[7], terms)
    gather_removal(root .. ':claims', work, true)
    serve_lane(work, lane, held[8])
    if not lanes_started[lane] then redis.call('HSET', root .. ':started', lane, now) end
    lanes_started[lane] = true
    if unwanted then
      skip_work(work, token, terms)
      return 2, token
    end
    local started = next_token()
    local kind = held[4]
    now_text = now_text or string.format('%.0f', now)
    expected_texts[kind] = expected_texts[kind] or string.format('%.0f', math.floor(now + mean(kind, terms) + 0.5))
    redis.call('HSET', claim, 'state', 'running', 'token', started, 'starter', nonce, 'since', now_text,
      'expected', expected_texts[kind])
    lease_until = lease_until or string.format('%.0f', now + terms.lease_ms)
    gather_add(root .. ':leases', lease_until, work)
    return 1, started
  end
end
