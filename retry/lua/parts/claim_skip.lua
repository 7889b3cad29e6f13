-- Ends the claim of work that waits, without its preparation: a client that still wants it asks again.
-- terms: done_ms channel
local function skip_work(work, token, terms)
  local done = root .. ':done:' .. work
  redis.call('DEL', root .. ':claim:' .. work)
  redis.call('ZREM', root .. ':claims', work)
  redis.call('HSET', done, 'token', token, 'outcome', 'skipped')
  redis.call('PEXPIRE', done, terms.done_ms)
  redis.call('PUBLISH', terms.channel, 'skipped ' .. work)
end

