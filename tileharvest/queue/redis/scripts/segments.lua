-- Stands before every script: how segments are opened, and dropped with all that is in them.
--
-- A segment has two keys: what is known of it and of its harvest, and what was seen. They expire when nothing is done
-- in the segment for long. What belongs to no segment, such as a person's orders, has the empty name and stays.

local function segment_key(name)
    return key('segment:' .. name)
end

local function seen_key(name)
    return key('fingerprints:' .. name)
end

-- Opens a segment, or lets it last for the full time again.
local function open_segment(name)
    if not redis.call('ZSCORE', SEGMENTS, name) then
        redis.call('HSET', NUMBERS, 'format', call.format)
        redis.call('ZADD', SEGMENTS, redis.call('HINCRBY', NUMBERS, 'segment', 1), name)
    end
    if name ~= '' then
        redis.call('HSETNX', segment_key(name), 'opened', now)
        redis.call('EXPIRE', segment_key(name), call.kept)
    end
    redis.call('EXPIRE', seen_key(name), call.kept)
end

-- Returns the name of the newest segment that has one, or nil.
local function newest_segment()
    for _, name in ipairs(redis.call('ZREVRANGE', SEGMENTS, 0, 1)) do
        if name ~= '' then
            return name
        end
    end
    return nil
end

-- Drops everything of the segment but its failures. Reads all requests.
local function drop_segment(name)
    redis.call('UNLINK', segment_key(name), seen_key(name))
    redis.call('ZREM', SEGMENTS, name)
    local cursor = '0'
    repeat
        local part = redis.call('HSCAN', REQUESTS, cursor, 'COUNT', 1000)
        cursor = part[1]
        for place = 1, #part[2], 2 do
            local id, request = part[2][place], read(part[2][place + 1])
            if request and request.segment == name then
                withdraw(id)
                redis.call('HDEL', REQUESTS, id)
                for _, lane in ipairs({ PLUS, NORMAL, MINUS, DELAYED }) do
                    redis.call('ZREM', lane, id)
                end
            end
        end
    until cursor == '0'
end

-- Returns whether another worker that is alive has the right to end the harvest.
local function is_closed_elsewhere(closer)
    local heard = closer and closer ~= call.client and tonumber(redis.call('ZSCORE', WORKERS, closer))
    return heard and heard > now - call.lease_seconds
end
