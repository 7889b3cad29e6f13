-- Notes that a domain refused a request after a redirect.
-- needs: retry.gathered domain owners line scope_rules politeness domains
-- ARGV: rules host site path egress latency_ms retry_after_ms   -> 1
local host, site, path, egress = unpack(ARGV, 2, 5)
local d = domain_by_way(scope_by_rule(host, site, path), egress)
local latency = tonumber(ARGV[6])
on_throttled(d, {claimed = now - latency, paced = "1"}, latency, tonumber(ARGV[7]))
settle(d)
note_domain(d)
bound_domains()
wake()
return 1
