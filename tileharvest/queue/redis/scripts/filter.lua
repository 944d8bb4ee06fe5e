-- The filter of a segment: what was seen in it, in one bitmap. Stands before every script.
--
-- A filter's text is `hashes bits capacity`, for each of those that follow each other in the bitmap.

local BITMAP_BITS = 2 ^ 32

-- The filters that a text means, with all of their bits and their capacity; nil for any other text.
local function shape_of(text)
    local shape = { bits = 0, capacity = 0 }
    for part in string.gmatch(text or '', '[^;]+') do
        local hashes, bits, capacity = string.match(part, '^([1-9]%d*) ([1-9]%d*) ([1-9]%d*)$')
        hashes, bits, capacity = tonumber(hashes), tonumber(bits), tonumber(capacity)
        if not hashes or shape.bits + hashes * bits > BITMAP_BITS then
            return nil
        end
        shape[#shape + 1] = { hashes = hashes, bits = bits }
        shape.bits, shape.capacity = shape.bits + hashes * bits, shape.capacity + capacity
    end
    return #shape > 0 and shape or nil
end

-- Adds a filter that has room for so many, but no less than all before; the new text.
local function grow(key, name, text, shape, number)
    local capacity = math.max(shape.capacity, number)
    -- The bits for each request and hash are 1 / ln 2, whatever the number of hashes.
    local hashes, bits = shape[#shape].hashes + 1, math.ceil(capacity / math.log(2))
    if shape.bits + hashes * bits > BITMAP_BITS then
        error('the filter of segment ' .. name .. ' cannot be larger than 512 MB: more errors need less')
    end
    text = string.format('%s;%d %d %d', text, hashes, bits, capacity)
    redis.call('SETBIT', key, shape.bits + hashes * bits - 1, 0)
    redis.call('HSET', FILTERS, name, text)
    return text
end

local function begin(key, name, text, shape)
    redis.call('DEL', key)
    -- At its full length at once: growing with each bit would copy it again and again.
    redis.call('SETBIT', key, shape.bits - 1, 0)
    redis.call('EXPIRE', key, call.kept)
    redis.call('HSET', FILTERS, name, text)
    redis.call('HDEL', ACCEPTED, name)
end

-- Sees to it that the filter of a segment is there, and has room for so many more. What stands in Redis, and
-- how many were seen if it had to grow, else 0.
local function prepare(number, coming)
    local segment, key = call.segments[number], filter_key(number)
    local text = redis.call('HGET', FILTERS, segment.name) or ''
    local seen = tonumber(redis.call('HGET', ACCEPTED, segment.name)) or 0
    local shape = shape_of(text)
    if not shape or redis.call('EXISTS', key) == 0 then
        -- Not begun yet, or expired.
        text, seen = segment.filter, 0
        shape = shape_of(text)
        begin(key, segment.name, text, shape)
    elseif redis.call('TTL', key) < call.kept * 0.9 then
        redis.call('EXPIRE', key, call.kept)
    end
    local missing = seen + coming - shape.capacity
    if missing > 0 then
        text = grow(key, segment.name, text, shape, missing)
        -- It may have become what the caller believes it to be, who knew it before it was forgotten.
        shape = shape_of(text)
    end
    segment.shape = shape
    return text, missing > 0 and seen or 0
end

-- Prepares the filters of all that is pushed. An answer for a caller who believes them to be others than they
-- are, and who then calls again; or nil.
local function other_filters()
    local coming, found = {}, {}
    for _, entry in ipairs(call.pushed) do
        if entry[5] then
            coming[entry[1]] = (coming[entry[1]] or 0) + 1
        end
    end
    for number, many in pairs(coming) do
        local text, grown = prepare(number, many)
        if text ~= call.segments[number].filter then
            found[#found + 1] = array(3) .. pack(number) .. bytes(text) .. pack(grown)
        end
    end
    return #found > 0 and array(2) .. pack('filters') .. array(#found) .. table.concat(found) or nil
end

-- What asks a filter: the places of all hashes, and the command that sets those of the last one, the others
-- being full. The places are filled in each time.
local function asking(number)
    local shape, key, hashes = call.segments[number].shape, filter_key(number), 0
    for _, one in ipairs(shape) do
        hashes = hashes + one.hashes
    end
    local setting = { 'BITFIELD', key }
    for hash = 1, shape[#shape].hashes do
        setting[4 * hash - 1], setting[4 * hash] = 'SET', 'u1'
        setting[4 * hash + 1], setting[4 * hash + 2] = 0, 1
    end
    return { key = key, shape = shape, format = '<' .. string.rep('I4', hashes), setting = setting, new = 0 }
end

local function are_set(key, places, first, last)
    for place = first, last do
        if redis.call('GETBIT', key, places[place]) == 0 then
            return false
        end
    end
    return true
end

-- Whether a fingerprint is new, which it is not any more. `asked` is from `asking`.
local function is_new(asked, positions)
    local places, last = { struct.unpack(asked.format, positions) }, 0
    for _, one in ipairs(asked.shape) do
        if are_set(asked.key, places, last + 1, last + one.hashes) then
            return false
        end
        last = last + one.hashes
    end
    local hashes = asked.shape[#asked.shape].hashes
    for hash = 1, hashes do
        asked.setting[4 * hash + 1] = places[last - hashes + hash]
    end
    redis.call(unpack(asked.setting))
    asked.new = asked.new + 1
    return true
end
