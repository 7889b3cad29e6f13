-- What other machines know of a machine, and the time by the clock that all share.
-- KEYS: its name, its address, its pause   -> {installation | nil, address | nil, pause | nil, seconds}
return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2]), redis.call('GET', KEYS[3]), redis.call('TIME')[1]}
