-- Sets the gap of a domain's robots.txt, and for how long it is known.
-- needs: retry.gathered domain owners line
-- ARGV: rules scope gap_ms known_ms   -> 1
local d = domain(ARGV[2])
d.crawl, d.crawl_until = tonumber(ARGV[3]), now + ARGV[4]
settle(d)
wake()
return 1
