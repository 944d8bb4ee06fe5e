-- What was seen in a segment: 80 bits of each fingerprint's SHA-1, in the buckets of a hash. Each takes twelve bytes.
--
-- This is as good as an exact record: the probability that any of ten million new requests is taken for a seen one is
-- below one in a trillion. If many more requests come than were expected, they get further buckets.

-- The expected number of prints in a bucket. A larger bucket costs more for each new print, as it is written as a
-- whole. With smaller buckets the hash itself would take more memory than the prints.
local IN_BUCKET = 32

-- The least number of buckets. It is small, because there are many small maps.
local LEAST_BUCKETS = 16

-- When there are eight times as many prints as expected, sixteen times as many buckets are added. So no bucket has
-- many more than 256 prints, and a request is looked up in few buckets.
local CROWDED, MORE = 8, 16

local seen = {}

local function add_buckets(name, record, number)
    record.sizes[#record.sizes + 1] = number
    record.room = record.room + number * IN_BUCKET * CROWDED
    redis.call('HSET', segment_key(name), 'buckets', table.concat(record.sizes, ' '))
end

-- Returns the record of a segment. The first buckets are for a quarter more than the last segment had, or for
-- `call.expected` requests if that is not known.
local function seen_of(name)
    if not seen[name] then
        local known = redis.call('HMGET', segment_key(name), 'buckets', 'accepted')
        local record = { sizes = {}, room = 0, accepted = tonumber(known[2]) or 0 }
        for size in string.gmatch(known[1] or '', '%d+') do
            record.sizes[#record.sizes + 1] = tonumber(size)
            record.room = record.room + tonumber(size) * IN_BUCKET * CROWDED
        end
        if #record.sizes == 0 then
            local last = tonumber(redis.call('HGET', NUMBERS, 'seen'))
            local expected = last and last * 5 / 4 or call.expected
            add_buckets(name, record, math.max(LEAST_BUCKETS, math.ceil(expected / IN_BUCKET)))
        end
        seen[name] = record
    end
    return seen[name]
end

-- Returns whether a bucket has a print.
local function has(bucket, print)
    local place = string.find(bucket, print, 1, true)
    while place and place % #print ~= 1 do
        -- This place spans two prints: look further.
        place = string.find(bucket, print, place + 1, true)
    end
    return place
end

-- Adds a fingerprint to the segment, and returns whether it is new.
local function is_new(name, fingerprint)
    local record, digest, numbers = seen_of(name), redis.sha1hex(fingerprint), {}
    for place = 1, 4 do
        numbers[place] = tonumber(string.sub(digest, 8 * place - 7, 8 * place), 16)
    end
    local print = struct.pack('>I4I4I2', numbers[2], numbers[3], numbers[4] % 2 ^ 16)
    if record.accepted >= record.room then
        add_buckets(name, record, record.sizes[#record.sizes] * MORE)
    end
    local field, bucket
    for generation, size in ipairs(record.sizes) do
        field = generation .. ':' .. numbers[1] % size
        bucket = redis.call('HGET', seen_key(name), field) or ''
        if has(bucket, print) then
            return false
        end
    end
    redis.call('HSET', seen_key(name), field, bucket .. print)
    record.accepted = record.accepted + 1
    return true
end
