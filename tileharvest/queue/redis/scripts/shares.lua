-- Each worker's part of what its map, and all maps of the host together, may have on the way at the same
-- time. Stands before `exchange.lua`, `extend.lua` and `join.lua`.
--
-- map: its name; in_flight

local function share_of(worker, record)
    local fine, facts = pcall(cmsgpack.unpack, record)
    if not fine or type(facts) ~= 'table' then
        return nil
    end
    local map, concurrency, joined, told, counted, heard, is_busy = unpack(facts, 1, 7)
    fine = type(map) == 'string' and type(joined) == 'number' and type(heard) == 'number'
    if not (fine and is_whole(concurrency) and is_whole(told) and is_whole(counted)) then
        return nil
    end
    local share = { worker = worker, map = map, concurrency = concurrency, joined = joined }
    share.told, share.counted, share.heard, share.is_busy = told, counted, heard, is_busy
    return share
end

local function keep_share(share)
    local facts = { share.map, share.concurrency, share.joined, share.told, share.counted, share.heard }
    facts[7] = share.is_busy
    redis.call('HSET', SHARES, share.worker, pack(facts))
end

local function new_share(now)
    local share = { worker = call.client, map = call.map, concurrency = call.pace[1], joined = now }
    share.told, share.counted, share.heard, share.is_busy = 0, 0, now, false
    return share
end

-- A sign of life of who is not asking for anything. One that was taken for gone stays so until it asks.
local function touch_share(now)
    local record = call.pace and redis.call('HGET', SHARES, call.client)
    local share = record and share_of(call.client, record)
    if share then
        share.heard = now
        keep_share(share)
        redis.call('EXPIRE', SHARES, call.remembered)
        if redis.call('TTL', HOST) < call.remembered then
            redis.call('EXPIRE', HOST, call.remembered)
        end
    end
end

-- The share of this worker, and those of all of the host that are alive, its own among them.
local function shares_of_host(now)
    local records, own, all = redis.call('HGETALL', SHARES), nil, {}
    for place = 1, #records, 2 do
        local worker = records[place]
        local share = share_of(worker, records[place + 1])
        if share and worker == call.client then
            own = share
        elseif share and share.heard > now - SILENT then
            all[#all + 1] = share
        else
            redis.call('HDEL', SHARES, worker)
        end
    end
    own = own or new_share(now)
    all[#all + 1] = own
    return own, all
end

-- By map: its concurrency, as its worker says that was heard of last, and how many workers it has.
local function maps_of(all)
    local maps = {}
    for _, share in ipairs(all) do
        local map = maps[share.map] or { concurrency = 0, heard = -math.huge, workers = 0 }
        maps[share.map] = map
        map.workers = map.workers + 1
        if share.heard >= map.heard then
            map.concurrency, map.heard = share.concurrency, share.heard
        end
    end
    return maps
end

local function used_at(level, maps)
    local used = 0
    for _, map in pairs(maps) do
        used = used + math.min(map.concurrency, map.workers * level)
    end
    return used
end

-- How many every worker may have if all have the same, but those whose map allows no more.
local function level_of(maps, concurrency)
    if used_at(concurrency, maps) <= concurrency then
        return concurrency
    end
    local low, high = 0, concurrency
    while low < high do
        local middle = math.ceil((low + high) / 2)
        if used_at(middle, maps) <= concurrency then
            low = middle
        else
            high = middle - 1
        end
    end
    return low
end

-- What this worker would have if all were told theirs. Of those who have least, who came first is first to
-- have one more.
local function fair_share(own, all, host_concurrency)
    local maps = maps_of(all)
    local left = host_concurrency > 0 and host_concurrency or used_at(math.huge, maps)
    local level = level_of(maps, left)
    for _, map in pairs(maps) do
        map.each = math.min(level, math.floor(map.concurrency / map.workers))
        map.left = map.concurrency - map.workers * map.each
        left = left - map.workers * map.each
    end
    table.sort(all, function(one, other)
        local ones, others = maps[one.map].each, maps[other.map].each
        if ones ~= others then
            return ones < others
        elseif one.joined ~= other.joined then
            return one.joined < other.joined
        end
        return one.worker < other.worker
    end)
    for _, share in ipairs(all) do
        local map = maps[share.map]
        local more = math.min(1, map.left, left)
        if share == own then
            return map.each + more
        end
        map.left, left = map.left - more, left - more
    end
end

-- What all others of the map, and of the host, may have on the way, and how many workers there are: of the
-- map, and busy ones of the host.
local function others_of(own, all)
    local others = { map = 0, host = 0, workers = 1, busy = 1 }
    for _, share in ipairs(all) do
        if share ~= own then
            others.host = others.host + share.counted
            others.busy = others.busy + (share.is_busy and 1 or 0)
        end
        if share ~= own and share.map == own.map then
            others.map = others.map + share.counted
            others.workers = others.workers + 1
        end
    end
    return others
end

-- What this worker may have on the way; and among how many is divided what waits in the map, and what the
-- host allows. A worker counts with what it was told last, as it may start that much until it hears of less,
-- and with what it has on the way. So all together never have more on the way than is allowed.
local function share_out(map, host, is_busy, now)
    local own, all = shares_of_host(now)
    own.concurrency, own.heard, own.is_busy = map.concurrency, now, is_busy
    local others, told = others_of(own, all), fair_share(own, all, host.concurrency)
    local most = host.concurrency > 0 and host.concurrency or math.huge
    if told > own.told then
        told = math.max(0, math.min(told, map.concurrency - others.map, most - others.host))
    end
    own.counted = math.max(own.told, told, call.in_flight)
    own.told = told
    keep_share(own)
    return told, math.min(others.workers, map.concurrency, most), math.min(others.busy, most)
end
