-- Drops everything of some segments but failures.
--
-- segments: their names
-- listing: all segments as the caller believes them to be, oldest first, or false if it does not matter;
-- where there are others by now nothing is done, and false is the answer

local function is_as_listed()
    local present = redis.call('ZRANGE', SEGMENTS, 0, -1)
    if #present ~= #call.listing then
        return false
    end
    for number, name in ipairs(present) do
        if name ~= call.listing[number] then
            return false
        end
    end
    return true
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

local function forget()
    local names = {}
    for number, name in ipairs(call.segments) do
        names[name] = true
        drop_remarks(name)
        redis.call('UNLINK', KEYS[FIRST_FILTER + number - 1])
        redis.call('ZREM', SEGMENTS, name)
        redis.call('HDEL', FILTERS, name)
        redis.call('HDEL', ACCEPTED, name)
        redis.call('HDEL', DONE, name)
    end
    if redis.call('HLEN', REQUESTS) > 0 then
        drop_requests(names)
    end
    local answer = pack(true)
    remember(answer)
    return answer
end

local answer = recall()
if answer then
    return answer
end
if call.listing and not is_as_listed() then
    return pack(false)
end
return forget()
