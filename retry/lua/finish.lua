-- Ends one claim.
-- needs: root gathered turns claim_skip lane_rounds claim_end
-- KEYS: root   ARGV: terms work token outcome duration_ms | status detail base_ms max_ms luck retry_ms   -> 1 | 0
local terms = cjson.decode(ARGV[1])
local ended = finish_work(terms, ARGV[2], ARGV[3], ARGV[4], ARGV[5], {unpack(ARGV, 6)})
write_gathered()
keep_durations(terms)
return ended
