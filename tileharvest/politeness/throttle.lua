-- The throttle of a fleet, in one step: the rules of `HostState` in throttle.py, which says why. KEYS[1] is the hash of
-- a host: when its rest ends, the shares, and the last start by each limit. ARGV[1] is the call, as MessagePack.

local host, call = KEYS[1], cmsgpack.unpack(ARGV[1])
local time = redis.call('TIME')
local now = call.now or time[1] + time[2] / 1e6
local act = {}

local function moment(field)
    return tonumber(redis.call('HGET', host, field)) or 0
end

local function rest_left()
    local left = moment('rest_ends') - now
    return left > 0 and left <= call.longest and left or 0
end

function act.reserve(limits)
    local start = now + rest_left()
    for limit, spacing in pairs(limits) do
        local last = math.min(moment(limit), now + call.set_back)
        redis.call('HSET', host, limit, last)
        start = math.max(start, last + spacing)
    end
    local is_granted = start <= now + call.horizon
    if is_granted then
        for limit in pairs(limits) do redis.call('HSET', host, limit, start) end
    end
    return {start - now, is_granted}
end

function act.rest(seconds)
    redis.call('HSET', host, 'rest_ends', math.max(moment('rest_ends'), now + seconds))
end

function act.share(own, of_map, of_host, lasts)
    local kept = redis.call('HGET', host, 'shares')
    local before, running = kept and cmsgpack.unpack(kept) or {}, {}
    for _, one in ipairs(before) do
        if one.ends > now then running[one.map] = true end
    end
    local shares, spent = {}, {0, 0, 0}
    for _, one in ipairs(before) do
        if running[one.map] and one.worker ~= own.worker then
            table.insert(shares, one)
            if one.map == own.map then
                for part, number in ipairs(one.spent) do spent[part] = spent[part] + number end
            end
        end
    end

    -- The part of these places beside the workers of a map, or of all maps.
    local function part(places, map)
        local workers, rank, left = 1, math.floor(now / call.turn), places
        for _, one in ipairs(shares) do
            if one.ends > now and (not map or one.map == map) then
                left = left - one.places
                workers = workers + (one.is_busy and 1 or 0)
                rank = rank + (one.is_busy and one.worker < own.worker and 1 or 0)
            end
        end
        return math.min(math.floor((places + workers - 1 - rank % workers) / workers), left)
    end

    local number = own.is_busy and math.max(0, math.min(part(of_map, own.map), part(of_host))) or 0
    own.places, own.ends = math.max(own.places, number), now + lasts
    table.insert(shares, own)
    redis.call('HSET', host, 'shares', cmsgpack.pack(shares))
    return {number, rest_left(), spent}
end

local answer = act[call.act](unpack(call.given))
redis.call('EXPIRE', host, call.kept)
return cmsgpack.pack(answer)
