-- Ends a held job, unless waiters have joined it meanwhile: those are handed over first.
-- needs: retry.gathered domain owners line job
-- ARGV: rules key token version   -> stale | ended | more version payloads
local key, token, version = unpack(ARGV, 2, 4)
local job = job_of(key)
if not job or job.token ~= token or (job.state ~= 'holding' and job.state ~= 'ending') then return {'stale'} end
if tonumber(version) ~= job.version then
  return {'more', string.format('%.0f', job.version), redis.call('HGETALL', 'fetch:{0}:wanted:' .. key)}
end
forget(job)
write_gathered()
return {'ended'}
