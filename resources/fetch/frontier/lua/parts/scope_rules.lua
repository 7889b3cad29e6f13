-- The scope that a host's limits count for, as an admin has set it for the host or for its registrable domain.
local function scope_by_rule(host, site, path)
  local by = redis.call('HMGET', 'fetch:{0}:scopes', host, site)
  local kind = by[1] or by[2]
  if not kind or kind == 'host' then return host end
  if kind == 'registrable' then return site end
  if kind == 'path' then return path end
  return kind  -- an address, as address:192.0.2.1
end
