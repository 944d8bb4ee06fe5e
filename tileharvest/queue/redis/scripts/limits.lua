-- How fast a map, and its host, may be asked. Stands before the scripts that keep to it, or set it.
--
-- pace: for what is not in Redis: concurrency, least and most seconds from the start of one request to that
-- of the next; then the same of the host, with a concurrency of 0 where none is set
-- seed: of what is drawn; Redis itself would draw the same in each call

math.randomseed(call.seed)

local function draw(least, most)
    return least == most and least or least + (most - least) * math.random()
end

-- Of the hash of the map, or of the host. `last` is the last start that was given, and `slot` the next that
-- may be; without a gap there is none.
local function limits_of(key, told)
    local known = redis.call('HMGET', key, 'concurrency', 'least', 'most', 'slot', 'last', 'rest', 'probe')
    for number = 1, 7 do
        known[number] = tonumber(known[number])
    end
    local concurrency, least, most = unpack(known[1] and known or told, 1, 3)
    local limits = { key = key, concurrency = concurrency, least = least, most = most }
    limits.slot, limits.last = most > 0 and known[4] or 0, known[5] or 0
    limits.rest, limits.probe = known[6] or 0, known[7] or 0
    return limits
end

local function told_of_map()
    return { call.pace[1], call.pace[2], call.pace[3] }
end

local function told_of_host()
    return { call.pace[4], call.pace[5], call.pace[6] }
end

-- What is known of a host is forgotten some minutes after it was asked for last.
local function keep_host(host, now)
    local last = math.max(now, host.slot, host.rest, host.probe)
    redis.call('EXPIRE', HOST, math.ceil(last - now) + call.remembered)
    redis.call('EXPIRE', SHARES, call.remembered)
end

-- From now on these hold. With another gap it is the new one that follows the last start, not what is left of
-- the old one, which may be hours.
local function set_limits(key, told)
    local known = limits_of(key, told)
    local concurrency, least, most = unpack(told)
    if least ~= known.least or most ~= known.most then
        known.slot = known.last + draw(least, most)
        redis.call('HSET', key, 'slot', known.slot)
    end
    redis.call('HSET', key, 'concurrency', concurrency, 'least', least, 'most', most)
    return known
end

local function keep_pace(now)
    set_limits(NUMBERS, told_of_map())
    keep_host(set_limits(HOST, told_of_host()), now)
end
