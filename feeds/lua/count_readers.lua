-- Counts the readers of several sketches together.   KEYS: sketches   -> number
return redis.call('PFCOUNT', unpack(KEYS))
