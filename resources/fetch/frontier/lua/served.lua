-- Notes that a domain served a request after a redirect: it learns from it as from its own jobs.
-- needs: retry.gathered domain owners line scope_rules politeness domains
-- ARGV: rules host site path egress since_turn_ms latency_ms paced   -> 1
local host, site, path, egress = unpack(ARGV, 2, 5)
local d = domain_by_way(scope_by_rule(host, site, path), egress)
on_success(d, {claimed = now - ARGV[6], paced = ARGV[8]}, tonumber(ARGV[7]))
settle(d)
note_domain(d)
bound_domains()
wake()
return 1
