-- Owners: domains are divided into parts by their names, for each egress anew. A part has one owner at a time, a living
-- fetcher, which alone claims its jobs. A domain may be lent to another fetcher: it is of that one's part of loans then.
local PARTS = 64
local owners = {}

local function part_name(number, egress) return via(tostring(number), egress) end
local function loans_name(fetcher, egress) return via('lent to ' .. fetcher, egress) end

-- The part of a domain: that of its name, whatever its egress.
local function own_part(d)
  if not d.part then
    local name = d.egress == '' and d.scope or string.sub(d.scope, 1, -6 - #d.egress)  -- without ` via <egress>`
    d.part = part_name(tonumber(string.sub(redis.sha1hex(name), 1, 2), 16) % PARTS, d.egress)
  end
  return d.part
end

-- The part that the domain moves with, as it is now, or as Redis has it (`held`).
local function part_of(d, held)
  local lent = (held or d).lent
  return lent ~= '' and loans_name(lent, d.egress) or own_part(d)
end

local function owner_of_part(part)
  owners[part] = owners[part] or redis.call('HGET', 'fetch:{0}:owners', part) or ''
  return owners[part]
end

-- The owner of the domain; '' as long as no fetcher has signed in. A loan ends with the last job, or its fetcher.
local function owner_of(d)
  if d.lent ~= '' and (waiting(d) + d.in_flight == 0 or owner_of_part(part_of(d)) == '') then d.lent = '' end
  return owner_of_part(part_of(d))
end
