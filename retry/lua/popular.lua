-- Returns the number of a content's requests, each at its weight of now.
-- needs: popularity
-- KEYS: popular decays   ARGV: kind key   -> number as a string
return string.format('%.6g', weigh_requests(KEYS[1], KEYS[2], ARGV[1], ARGV[2]))
