-- The spread of the parts over the living fetchers, by rendezvous hashing (Thaler & Ravishankar, 1998): a fetcher that
-- comes or goes moves only its own share.
local spread_parts, forget_fetcher, sign_in
do
  -- The fetchers that have said their machine and its egresses, in the order of their names.
  local function signed_in()
    local found, flat = {}, redis.call('HGETALL', 'fetch:{0}:machines')
    for place = 1, #flat, 2 do
      local machine, ways = string.match(flat[place + 1], '^([^\n]*)\n(.*)$')
      if redis.call('ZSCORE', 'fetch:{0}:fetchers', flat[place]) then
        found[#found + 1] = {name = flat[place], machine = machine, ways = ways}
      else  -- an earlier version of these scripts has forgotten it
        redis.call('HDEL', 'fetch:{0}:machines', flat[place])
      end
    end
    table.sort(found, function(one, other) return one.name < other.name end)
    return found
  end

  local function filter(all, is_kept)
    local kept = {}
    for _, one in ipairs(all) do
      if is_kept(one) then kept[#kept + 1] = one end
    end
    return kept[1] and kept or all
  end

  -- The fetchers that may own parts by an egress: those whose machine has it and whose network is there. Without any,
  -- those that have it take turns at testing it; an egress that no machine has any more is left to all.
  local function candidates(all, egress)
    local having = filter(all, function(one) return egress == '' or string.find(one.ways, ' ' .. egress .. ' ', 1, true) end)
    return filter(having, function(one) return not is_away(one.machine, egress) end)
  end

  -- The candidate with the highest random weight.
  local function heaviest(part, all)
    local best, most = nil, ''
    for _, one in ipairs(all) do
      local weight = redis.sha1hex(one.name .. ' ' .. part)
      if weight > most then best, most = one.name, weight end
    end
    return best
  end

  -- The part's domains that stand in lines are noted, to be moved to those of the new owner.
  local function hand_over(part, owner)
    if owner then redis.call('HSET', 'fetch:{0}:owners', part, owner) else redis.call('HDEL', 'fetch:{0}:owners', part) end
    local standing, moving = 'fetch:{0}:standing:' .. part, 'fetch:{0}:moving:' .. part
    if redis.call('EXISTS', standing) == 0 then return end
    if redis.call('RENAMENX', standing, moving) == 0 then
      redis.call('SUNIONSTORE', moving, moving, standing)
      redis.call('DEL', standing)
    end
    redis.call('SADD', 'fetch:{0}:moved', part)
    wake_at = now
  end

  local function spread(by_egress)
    local before, after, counts, flat = {}, {}, {}, redis.call('HGETALL', 'fetch:{0}:owners')
    for place = 1, #flat, 2 do before[flat[place]] = flat[place + 1] end
    for egress, all in pairs(by_egress) do
      for number = 0, PARTS - 1 do
        local part = part_name(number, egress)
        local owner = heaviest(part, all)
        if owner then counts[owner] = (counts[owner] or 0) + 1 end
        after[part] = owner
      end
      for _, one in ipairs(all) do after[loans_name(one.name, egress)] = one.name end
    end
    for part in pairs(before) do
      if not after[part] then hand_over(part, nil) end
    end
    for part, owner in pairs(after) do
      if owner ~= before[part] then hand_over(part, owner) end
    end
    redis.call('DEL', 'fetch:{0}:owned')
    for owner, number in pairs(counts) do redis.call('HSET', 'fetch:{0}:owned', owner, number) end
  end

  -- Spreads the parts anew if other fetchers than before may own some. Known domains are placed anew after it.
  spread_parts = function()
    local egresses, by_egress, all, told = redis.call('SMEMBERS', 'fetch:{0}:egresses'), {}, signed_in(), {}
    egresses[#egresses + 1] = ''
    table.sort(egresses)
    for _, egress in ipairs(egresses) do
      by_egress[egress] = candidates(all, egress)
      told[#told + 1] = egress
      for _, one in ipairs(by_egress[egress]) do told[#told + 1] = one.name end
      told[#told + 1] = '\n'
    end
    local spread_over = table.concat(told, ' ')
    if redis.call('GET', 'fetch:{0}:spread') == spread_over then return end
    redis.call('SET', 'fetch:{0}:spread', spread_over)
    spread(by_egress)
    owners = {}
  end

  forget_fetcher = function(fetcher)
    redis.call('ZREM', 'fetch:{0}:fetchers', fetcher)
    redis.call('HDEL', 'fetch:{0}:machines', fetcher)
  end

  -- Notes that a fetcher is alive, and which egresses its machine has. Fetchers silent for a whole lease are forgotten.
  sign_in = function(fetcher, machine, ways)
    redis.call('ZADD', 'fetch:{0}:fetchers', now, fetcher)
    redis.call('HSET', 'fetch:{0}:machines', fetcher, machine .. '\n ' .. ways .. ' ')
    for _, gone in ipairs(redis.call('ZRANGEBYSCORE', 'fetch:{0}:fetchers', '-inf', now - rules.lease_ms)) do
      forget_fetcher(gone)
    end
    spread_parts()
  end
end
