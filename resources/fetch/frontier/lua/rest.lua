-- Returns how long a domain is blocked: it may have asked for that since a job of it was claimed.
-- needs: domain
-- ARGV: rules scope   -> wait_ms
return string.format('%.0f', math.max(0, domain(ARGV[2]).block_until - now))
