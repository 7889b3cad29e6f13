-- Returns the state of a piece of work, and claims it in the modes begin and refresh. The mode away is a look that notes
-- an outage of `cache`: contents that were stored before may be lost with it.
-- Every look at claimed work is noted in its claim (`asked`): the work is still wanted.
-- needs: root popularity tokens turns claim_skip lane_rounds
-- KEYS: root
-- ARGV: work kind mode("look"|"away"|"begin"|"refresh") lane limit workers(of this partition) spec default_ms client("" the site itself)
--       popular("1"|""|JSON: kind key least) is_published("1"|"": its publisher orders it) terms(done_ms channel)
--       message(for the lane's queue, if that is in this server, or "") | faster lanes
-- -> failed status detail wait_ms | done outcome wait_ms | claimed token wait_ms state | full wait_ms
--    | begun token wait_ms is_sent("1"|"") | promoted token wait_ms is_sent | unknown
local work, kind, mode, lane = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local claim, done, failure = root .. ':claim:' .. work, root .. ':done:' .. work, root .. ':failure:' .. work
local claims, queued = root .. ':claims', root .. ':queued:' .. lane
local limit, workers = tonumber(ARGV[5]), tonumber(ARGV[6])
local spec, default_ms, client = ARGV[7], tonumber(ARGV[8]), ARGV[9]
local is_published, terms, message = ARGV[11] == '1', cjson.decode(ARGV[12]), ARGV[13]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

if mode == 'away' then
  redis.pcall('SET', root .. ':away', 1, 'PX', 10000) -- no done mark is in force for longer
  mode = 'look'
end

local function is_popular()
  if ARGV[10] == '' or ARGV[10] == '1' then return ARGV[10] == '1' end
  local kind, key, least = unpack(cjson.decode(ARGV[10]))
  return weigh_requests(root .. ':popular:' .. kind, root .. ':popular:decays', kind, key) >= least
end

local function whole(x) return string.format('%.0f', x) end
local function mean(name) return tonumber(redis.call('GET', root .. ':duration:' .. name) or default_ms) end
local function expected_wait(ahead) return ahead * mean(lane) / workers + mean(kind) end
-- Messages of a lane are alike: one that is lost leaves the last work there without one. The sweeper can tell so of a
-- Celery queue at once.
local function sweep_after(wait)
  redis.call('ZADD', claims, now + (is_published and math.min(60000, math.max(5000, 2 * wait)) or 5000), work)
end

-- Comes before all other writes of a claim: a server that is out of memory refuses it, and nothing has changed.
local function send_message()
  if message == '' then return '' end
  redis.call('LPUSH', lane, message)
  return '1'
end

-- Where a publisher orders the works, its own backlogs are bounded, and the last place says nothing.
local function takes_another(ahead)
  if has_room(lane, client, limit, ahead) then return true end
  return ahead >= limit and not is_published and make_room(lane, client, terms)
end

local function is_slower(other)
  for place = 14, #ARGV do
    if ARGV[place] == other then return false end
  end
  return other ~= lane
end

local failed = redis.call('HMGET', failure, 'until', 'status', 'detail')
if failed[1] and tonumber(failed[1]) > now then
  return {'failed', failed[2], failed[3], whole(failed[1] - now)}
end

local held = redis.call('HMGET', claim, 'token', 'state', 'lane', 'expected', 'asked', 'client')
if held[1] then
  -- Once a second is enough. A server that takes no writes must still answer.
  if now - tonumber(held[5] or 0) >= 1000 then redis.pcall('HSET', claim, 'asked', whole(now)) end
  local wait = math.max(0, tonumber(held[4]) - now)
  local seems_lost = mode == 'begin' and held[3] == lane and now > tonumber(held[4]) + 1000
  if mode == 'look' or held[2] ~= 'queued' then return {'claimed', held[1], whole(wait), held[2]} end
  if not (seems_lost or is_slower(held[3])) then
    local before = nil
    if mode == 'begin' and held[3] == lane then
      before = is_published and hand_over(work, lane, client, held[6] or '')
        or not is_published and move_ahead(work, lane, client, is_popular(), held[6] or '')
    end
    if not before then return {'claimed', held[1], whole(wait), held[2]} end
    wait = expected_wait(before)
    redis.call('HSET', claim, 'expected', whole(now + wait))
    if is_published then return {'promoted', held[1], whole(wait), ''} end
    return {'claimed', held[1], whole(wait), held[2]}
  end
  -- Wanted work in a slower lane, or work whose message seems lost: a second copy, with the same token.
  local ahead = redis.call('ZCARD', queued)
  if not (seems_lost and ahead < limit or not seems_lost and takes_another(ahead)) then
    return {'claimed', held[1], whole(wait), held[2]}
  end
  local is_sent = send_message()
  if seems_lost then
    wait = expected_wait(redis.call('ZSCORE', queued, work) and count_before(work, lane) or ahead)
  else
    withdraw_from_lane(work, held[3], held[6] or '')
    wait = expected_wait(join_lane(work, lane, client, is_popular()))
  end
  redis.call('HSET', claim, 'expected', whole(now + wait))
  sweep_after(wait)
  return {'promoted', held[1], whole(wait), is_sent}
end

local outcome, left = redis.call('HGET', done, 'outcome'), redis.call('PTTL', done)
if left > 0 and (mode == 'look' or (mode == 'begin' and outcome == 'stored')) then
  if outcome == 'stored' and redis.call('EXISTS', root .. ':away') == 1 then outcome = 'lost' end
  return {'done', outcome, whole(left)}
end
if mode == 'look' then return {'unknown'} end

local ahead = redis.call('ZCARD', queued)
if not takes_another(ahead) then return {'full', whole(expected_wait(ahead))} end
local is_sent = send_message()
local wait = expected_wait(join_lane(work, lane, client, is_popular()))

local token = next_token()
keep_fencing_token()
redis.call('HSET', claim, 'token', token, 'state', 'queued', 'kind', kind, 'since', whole(now),
  'asked', whole(now), 'expected', whole(now + wait), 'spec', spec)
sweep_after(wait)
return {'begun', token, whole(wait), is_sent}
