-- A turn at a domain that a redirect leads to. It is kept for whoever asks, if it comes soon.
-- needs: domain line scoping
-- ARGV: rules host site path egress most_wait_ms   -> granted wait_ms | not_now wait_ms
local host, site, path, egress = unpack(ARGV, 2, 5)
local d = domain_by_way(scope_by_rule(host, site, path), egress)
local wait = math.max(0, allowed_at(d) - now)
if d.set_paused == 1 then wait = math.max(wait, rules.paused_ms) end
if wait > tonumber(ARGV[6]) then return {'not_now', string.format('%.0f', wait)} end
d.next = now + wait + gap_ms(d) * (0.9 + 0.2 * rules.luck)
d.asked_at = now
settle(d)
redis.call('ZADD', 'fetch:domains', now, d.scope)
wake()
return {'granted', string.format('%.0f', wait)}
