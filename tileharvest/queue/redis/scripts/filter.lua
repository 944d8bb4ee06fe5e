-- The filter of a segment: what was seen in it, in a bitmap that may hold several Bloom filters.
--
-- Each has its hashes and its capacity, and they follow each other in the bitmap. The next one errs half as often
-- and has room for at least as many as all before: so a new request is taken for a seen one less than twice as
-- often as was asked for. A bit for each request and hash takes 1 / ln 2 bits: 43.3 bits for each request at one
-- error in a billion.

-- The longest string of Redis has 512 MB.
local BITMAP_BITS = 2 ^ 32

-- The least room of a filter that is made after what the last segment had: 5.4 kB. Small maps are many.
local LEAST_ROOM = 1000

local filters = {}

local function add_filter(filter, hashes, capacity)
    local bits = math.ceil(hashes * capacity / math.log(2))
    filter[#filter + 1] = { first = filter.bits, bits = bits, hashes = hashes }
    filter.bits, filter.capacity = filter.bits + bits, filter.capacity + capacity
end

local function filter_of(name)
    if not filters[name] then
        local known = redis.call('HMGET', segment_key(name), 'filter', 'accepted')
        local filter = { text = known[1] or '', accepted = tonumber(known[2]) or 0, bits = 0, capacity = 0 }
        for hashes, capacity in string.gmatch(filter.text, '(%d+) (%d+)') do
            add_filter(filter, tonumber(hashes), tonumber(capacity))
        end
        filters[name] = filter
    end
    return filters[name]
end

-- Adds room. The first filter has it for a quarter more than the last segment had, or for what is expected where
-- that is not known. Only to grow beyond what is expected is worth telling a person.
local function grow(name, filter)
    local last = filter[#filter]
    local hashes, capacity = last and last.hashes + 1 or call.hashes, math.max(filter.capacity, #call.pushed)
    if not last then
        local seen = tonumber(redis.call('HGET', NUMBERS, 'seen'))
        capacity = seen and math.max(LEAST_ROOM, math.ceil(seen * 5 / 4)) or call.expected
    end
    capacity = math.min(capacity, math.floor((BITMAP_BITS - filter.bits - 1) * math.log(2) / hashes))
    if capacity < 1 then
        error('the filter of segment ' .. name .. ' cannot be larger than 512 MB: more errors need less')
    end
    add_filter(filter, hashes, capacity)
    filter.text = string.format('%s;%d %d', filter.text, hashes, capacity)
    filter.grown = last and filter.accepted >= call.expected and capacity
    redis.call('HSET', segment_key(name), 'filter', filter.text)
    -- At its full length at once: growing with each bit would copy it again and again.
    redis.call('SETBIT', seen_key(name), filter.bits - 1, 0)
end

-- Tells whether a fingerprint is new in the segment; now it is seen. Three numbers of 40 bits make all of its
-- places, after Kirsch and Mitzenmacher: two would be the same for too many requests. A floating-point number still
-- counts them exactly.
local function is_new(name, fingerprint)
    local filter, digest, bitmap = filter_of(name), redis.sha1hex(fingerprint), seen_key(name)
    local start, step = tonumber(string.sub(digest, 1, 10), 16), tonumber(string.sub(digest, 11, 20), 16)
    local bend = tonumber(string.sub(digest, 21, 30), 16)
    local function place_of(part, number)
        return part.first + (start + number * step + number * number * bend) % part.bits
    end
    for _, part in ipairs(filter) do
        local number, bit = 0, 1
        while bit == 1 and number < part.hashes do
            number = number + 1
            bit = redis.call('GETBIT', bitmap, place_of(part, number))
        end
        if bit == 1 then
            return false
        end
    end
    if filter.accepted >= filter.capacity then
        grow(name, filter)
    end
    local part, setting = filter[#filter], { 'BITFIELD', bitmap }
    for number = 1, part.hashes do
        setting[4 * number - 1], setting[4 * number] = 'SET', 'u1'
        setting[4 * number + 1] = place_of(part, number)
        setting[4 * number + 2] = 1
    end
    redis.call(unpack(setting))
    filter.accepted = filter.accepted + 1
    return true
end
