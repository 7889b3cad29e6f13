-- The gap that a domain's robots.txt asks for, and for how long that is known.
-- needs: domain line
-- ARGV: rules scope gap_ms known_ms   -> 1
local d = domain(ARGV[2])
d.crawl, d.crawl_until = tonumber(ARGV[3]), now + ARGV[4]
settle(d)
wake()
return 1
