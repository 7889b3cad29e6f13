-- Ends the claim of work that waits, without its preparation: who still wants it asks again.
-- terms: done_ms channel
local function skip_work(work, token, terms)
  local done = 'retry:done:' .. work
  redis.call('DEL', 'retry:claim:' .. work)
  redis.call('ZREM', 'retry:claims', work)
  redis.call('HSET', done, 'token', token, 'outcome', 'skipped')
  redis.call('PEXPIRE', done, terms.done_ms)
  redis.call('PUBLISH', terms.channel, 'skipped ' .. work)
end

