-- Notes readers of feeds on one day. Sketches that have not reached their full size take so many bytes in all: beyond
-- that they stay as they are, and no new one begins.
-- KEYS: bytes_of_the_day, then the sketch of each reader's feed
-- ARGV: kept_seconds most_bytes, then each reader   -> bytes
local FULL_BYTES, KEY_BYTES = 12304, 100
local kept, most = ARGV[1], tonumber(ARGV[2])
local bytes = tonumber(redis.call('GET', KEYS[1]) or 0)
for place = 2, #KEYS do
  local sketch = KEYS[place]
  local before = redis.call('STRLEN', sketch)
  if before >= FULL_BYTES or bytes < most then
    redis.call('PFADD', sketch, ARGV[place + 1])
    if before == 0 then
      redis.call('EXPIRE', sketch, kept)
      bytes = bytes + KEY_BYTES
    end
    bytes = bytes + redis.call('STRLEN', sketch) - before
  end
end
redis.call('SET', KEYS[1], bytes, 'EX', kept)
return bytes
