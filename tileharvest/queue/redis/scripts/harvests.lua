-- What is known of the harvest of a segment, and who is alive. Stands before every script.
--
-- joined, harvest: what the worker works for

-- The harvest of a segment; nil if there is none.
local function harvest_of(segment)
    local record = redis.call('HGET', HARVESTS, segment)
    if not record then
        return nil
    end
    local fine, name, is_seeded, has_ended, closer = pcall(cmsgpack.unpack, record)
    if fine and type(name) == 'string' and type(closer) == 'string' then
        return { name = name, is_seeded = is_seeded == true, has_ended = has_ended == true, closer = closer }
    end
    return nil
end

local function keep_harvest(segment, harvest)
    local record = pack(harvest.name, harvest.is_seeded, harvest.has_ended, harvest.closer)
    redis.call('HSET', HARVESTS, segment, record)
end

local function is_alive(worker, now)
    local heard = tonumber(redis.call('ZSCORE', WORKERS, worker))
    return heard ~= nil and heard > now - SILENT
end

-- Whether another worker, that is alive, has the right to end the harvest.
local function is_closed_elsewhere(harvest, now)
    local is_elsewhere = harvest.closer ~= '' and harvest.closer ~= call.client
    return is_elsewhere and is_alive(harvest.closer, now)
end
