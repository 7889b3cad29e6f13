-- A domain: the scope of a limit, and its state. Times are milliseconds of Redis' clock.
local rules = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = rules.now or time[1] * 1000 + time[2] / 1000  -- rules.now: a test's clock

-- Numbers without fractions are written in a quarter of the time.
local function whole(x) return math.floor(x + 0.5) end

local LANES = {'fast', 'slow'}
-- The names of a domain's fields by lane, and those of its counts by priority. They are not put together each time.
local FIELDS = {
  fast = {at = 'at_fast', placed = 'placed_fast', score = 'score_fast', short = 'short_fast', sum = 'sum_fast',
    popular = 'popular_fast', 'fast_1', 'fast_2', 'fast_3'},
  slow = {at = 'at_slow', placed = 'placed_slow', score = 'score_slow', short = 'short_slow', sum = 'sum_slow',
    popular = 'popular_slow', 'slow_1', 'slow_2', 'slow_3'},
}
local DEFAULTS = {
  -- politeness, learnt: gap between requests, its recent mean, the last refused gap, when it was cut, the Retry-After
  -- of that time, and the phase of the way back (in requests, below 0) and past it
  delay = rules.delay_ms, mean = rules.delay_ms, floor = 0, cut_at = 0, asked = 0, phase = 0, throttles = 0,
  -- how many may be in flight, the least number that was refused (0: none), how often it was tried in vain since
  cap = rules.in_flight, cap_refused = 0, cap_probes = 0,
  -- the most in flight with which requests were served since the last doubt, how often; and how many others were in
  -- flight at the refusal that made the gap longer: '' is not known
  served_most = 1, served_times = 0, cut_beside = '',
  -- how long a request takes, from its claim to its report: a mean in which older ones count less and less. 0 is not known
  took = 0,
  -- how long an answer's head takes: such a mean of successes, which other answers only make longer. 0 is not known
  answer = 0,
  -- when the next request may be sent
  next = 0, block_until = 0, block_cause = '', bytes_until = 0,
  -- the gap of robots.txt, until when it is known, and the job whose turn is used to fetch it
  crawl = 0, crawl_until = 0, robots_job = '',
  -- circuit: failures in a row, how often it opened in a row, and until when nothing is tried
  failures = 0, opens = 0, opened_at = 0, circuit_until = 0, trouble_since = 0, budget = rules.retry_budget,
  -- set by an admin; these win. '' is not set
  set_delay = '', set_cap = '', set_bytes = '', set_paused = 0,
  -- waiting jobs by lane and priority, and jobs in flight; the domain's places in line
  fast_1 = 0, fast_2 = 0, fast_3 = 0, slow_1 = 0, slow_2 = 0, slow_3 = 0, sum_fast = 0, sum_slow = 0, later = 0,
  in_flight = 0, slow_in_flight = 0, arrived = 0, at_fast = '', at_slow = '', placed_fast = 0, placed_slow = 0,
  popular_fast = 0, popular_slow = 0,  -- 1: the last job of the lane was one of popular content
  -- the egress of its requests, by name; '' is the machine's own
  egress = '',
  -- the fetcher that it is lent to, by name
  lent = '',
  -- for people
  ok = 0, throttled = 0, failed = 0, ok_at = 0, asked_at = 0, status = '', bytes = 0,
}

-- Fields that are text.
local TEXTS = {egress = 1, lent = 1, robots_job = 1, status = 1, at_fast = 1, at_slow = 1, block_cause = 1}

-- The scope of requests by that egress.
local function via(name, egress) return egress == '' and name or name .. ' via ' .. egress end

local loaded = {}

local WITH_DEFAULTS = {__index = DEFAULTS}

-- A hash as a table by name, which Redis fills in less time than a script.
local function read_hash(key)
  redis.setresp(3)
  local found = redis.pcall('HGETALL', key)
  redis.setresp(2)
  if found.err then error(found) end
  return found.map
end

-- The domain's record, one table for each in a script, with `held`, the values in Redis; behind both are the defaults.
-- Only settle() and save() write it.
local function domain(scope)
  if loaded[scope] then return loaded[scope] end
  local held = read_hash('fetch:{0}:domain:' .. scope)
  local d = setmetatable({scope = scope, held = held}, WITH_DEFAULTS)
  for name, value in pairs(held) do
    -- A sum has Lua read the number once, tonumber() twice. Fields of a later version stay as they are.
    if value ~= '' and not TEXTS[name] and DEFAULTS[name] then value = value + 0 end
    d[name], held[name] = value, value
  end
  setmetatable(held, WITH_DEFAULTS)
  loaded[scope] = d
  return d
end

-- The domain by an egress. A new egress copies the admin's limits of the domain.
local function domain_by_way(scope, egress)
  local d = domain(via(scope, egress))
  if d.egress == egress then return d end
  local plain = domain(scope)
  for _, name in ipairs({'set_delay', 'set_cap', 'set_bytes', 'set_paused'}) do d[name] = plain[name] end
  if plain.block_cause == 'admin' then d.block_until, d.block_cause = plain.block_until, 'admin' end
  d.egress = egress
  redis.call('SADD', 'fetch:{0}:egresses', egress)
  return d
end

local function has_limits(d) return d.set_delay ~= '' or d.set_cap ~= '' or d.set_bytes ~= '' or d.set_paused == 1 end

-- A domain that only redirects lead to, and that has refused nothing, is soon learnt again.
local function is_lasting(d)
  return d.arrived > 0 or d.floor > 0 or d.cap_refused > 0 or d.opens > 0 or d.block_until > now
end

-- Records with an admin's limits are kept for good, others for long: their expiry is renewed once in an hour, and with
-- these fields.
local KEPT_FOR = {set_delay = 1, set_cap = 1, set_bytes = 1, set_paused = 1, floor = 1, cap_refused = 1, opens = 1,
  block_until = 1, arrived = 1}
local function hour_of(ms) return math.floor(ms / 3600000) end

local function keep(d)
  local key = 'fetch:{0}:domain:' .. d.scope
  if has_limits(d) then
    redis.call('PERSIST', key)
  else
    redis.call('PEXPIRE', key, is_lasting(d) and rules.kept_ms or rules.brief_kept_ms)
  end
end

-- Numbers as text that reads as the same number. Domains of one step have many in common, and Redis writes each anew.
local text_of
do
  local texts = {}

  text_of = function(number)
    if number ~= number then return 'nan' end  -- no name of a field
    local text = texts[number] or string.format('%.17g', number)
    texts[number] = text
    return text
  end
end

local function write(d)
  local changed, length, held = {}, 0, d.held
  local is_kept = hour_of(held.asked_at) == hour_of(now)
  for name, value in pairs(d) do
    if value ~= held[name] and DEFAULTS[name] ~= nil then
      changed[length + 1], changed[length + 2] = name, type(value) == 'number' and text_of(value) or value
      length = length + 2
      if KEPT_FOR[name] then is_kept = false end
    end
  end
  if length == 0 then return end
  redis.call('HSET', 'fetch:{0}:domain:' .. d.scope, unpack(changed))
  if not is_kept then keep(d) end
  for place = 1, length, 2 do held[changed[place]] = d[changed[place]] end
end

-- Requests that may be in flight at once by an admin's limit, else as learnt below the ceiling.
local function usual_cap(d)
  local cap = d.set_cap
  return cap ~= '' and cap or math.min(math.floor(d.cap), rules.most_in_flight)
end

-- The same now. An open circuit tries one at a time, and a request for robots.txt is sent alone.
local function cap_of(d)
  if d.opens > 0 or d.robots_job ~= '' then return 1 end
  return usual_cap(d)
end

-- The gap at which the time of its answers alone keeps so many in flight (as AutoThrottle of Scrapy). It does not
-- depend on the gap in use, so it cannot grow by itself.
local function answer_gap(d) return d.answer / usual_cap(d) end

-- The shortest gap, whatever is learnt. Requests to a slow origin do not come in bunches: a share of that gap is between
-- them. Their number in flight does the rest, and where that is one, all of it.
local function least_gap(d)
  local cap = usual_cap(d)
  return cap > 1 and math.max(rules.least_delay_ms, d.answer / cap * rules.answer_share) or rules.least_delay_ms
end

local function gap_ms(d)
  local gap = d.set_delay
  return gap ~= '' and gap or math.max(d.delay, least_gap(d))
end

-- The turn after one at that moment: at random around that gap, not below the least one. Without a gap it is at once.
local function next_turn(d, at, gap)
  if gap == 0 then return math.floor(at) end
  local drawn = gap * (0.9 + 0.2 * rules.luck)
  if d.set_delay == '' then drawn = math.max(drawn, least_gap(d)) end
  return math.ceil(at + drawn)
end

-- True if the number in flight decides on the domain's rate, not the learnt gap.
local function is_slow(d) return d.set_delay == '' and answer_gap(d) >= d.delay end

local function allowed_at(d) return math.max(d.next, d.block_until, d.bytes_until, d.circuit_until) end

local function waiting_in(d, lane)
  local counts = FIELDS[lane]
  return d[counts[1]] + d[counts[2]] + d[counts[3]]
end
local function waiting(d) return waiting_in(d, 'fast') + waiting_in(d, 'slow') + d.later end

-- The slow lane leaves one request in flight to the fast one, where there are two.
local function has_room(d, lane)
  local cap = cap_of(d)
  if d.set_paused == 1 or d.in_flight >= cap then return false end
  return lane == 'fast' or cap == 1 or d.slow_in_flight < cap - 1
end
