-- Takes a turn at a domain that a redirect leads to, if it comes soon.
-- needs: retry.gathered domain owners line scope_rules domains
-- ARGV: rules host site path egress most_wait_ms   -> granted wait_ms paced | not_now wait_ms 0
local host, site, path, egress = unpack(ARGV, 2, 5)
local d = domain_by_way(scope_by_rule(host, site, path), egress)
local wait = math.max(0, allowed_at(d) - now)
if d.set_paused == 1 then wait = math.max(wait, rules.paused_ms) end
if wait > tonumber(ARGV[6]) then return {'not_now', string.format('%.0f', wait), '0'} end
-- As for a claim: only a request sent as soon as it is allowed tells of the rate.
local paced = d.next > 0 and now - allowed_at(d) <= math.max(gap_ms(d), 20)
d.next = next_turn(d, now + wait, gap_ms(d))
d.asked_at = now
settle(d)
note_domain(d)
bound_domains()
wake()
return {'granted', string.format('%.0f', wait), paced and '1' or '0'}
