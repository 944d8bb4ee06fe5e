-- Segments: how they are opened, and dropped with all that is in them. Stands before every script.

local function open_segment(name)
    if not redis.call('ZSCORE', SEGMENTS, name) then
        redis.call('ZADD', SEGMENTS, redis.call('HINCRBY', NUMBERS, 'segment', 1), name)
    end
end

-- The newest segment that has a name; nil if there is none.
local function newest_segment()
    for _, name in ipairs(redis.call('ZREVRANGE', SEGMENTS, 0, 1)) do
        if name ~= '' then
            return name
        end
    end
    return nil
end

-- The ids of all requests of these segments. Reads everything that waits.
local function requests_in(names)
    local ids, cursor = {}, '0'
    repeat
        local part = redis.call('HSCAN', REQUESTS, cursor, 'COUNT', 1000)
        cursor = part[1]
        for place = 1, #part[2], 2 do
            local request = read(part[2][place + 1])
            if request and names[request.segment] then
                ids[#ids + 1] = part[2][place]
            end
        end
    until cursor == '0'
    return ids
end

local function drop_requests(names)
    local ids = requests_in(names)
    let_go(ids)
    for _, key in ipairs({ PLUS, NORMAL, MINUS, DELAYED }) do
        apply('ZREM', key, ids)
    end
    drop(ids)
end

local function drop_remarks(name)
    local place = #name .. ':' .. name
    for _, field in ipairs(redis.call('HKEYS', REMARKS)) do
        if string.sub(field, 1, #place) == place then
            redis.call('HDEL', REMARKS, field)
        end
    end
end

-- Drops those of `call.segments`, which are their names.
local function drop_segments()
    local names = {}
    for number, name in ipairs(call.segments) do
        names[name] = true
        drop_remarks(name)
        redis.call('UNLINK', filter_key(number))
        redis.call('UNLINK', doubtful_key(number))
        redis.call('ZREM', SEGMENTS, name)
        for _, key in ipairs({ FILTERS, ACCEPTED, DONE, HARVESTS }) do
            redis.call('HDEL', key, name)
        end
    end
    if redis.call('HLEN', REQUESTS) > 0 then
        drop_requests(names)
    end
end
