-- A domain has served a request that a redirect led to: it learns from it as from those that were queued for it.
-- needs: domain line scoping adapting
-- ARGV: rules host site path egress since_turn_ms paced   -> 1
local host, site, path, egress = unpack(ARGV, 2, 5)
local d = domain_by_way(scope_by_rule(host, site, path), egress)
on_success(d, {claimed = now - ARGV[6], paced = ARGV[7]})
settle(d)
wake()
return 1
