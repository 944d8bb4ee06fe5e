-- What was seen in a segment: 80 bits of the hash of each fingerprint, in the buckets of one hash. Twelve bytes each.
--
-- It is as good as an exact record: that any of ten million new requests is taken for a seen one has a probability
-- below one in a trillion. It never has to grow, as a bucket with more in it only takes longer.

-- So many are expected in a bucket. A larger one costs more for each that is new, as it is written as a whole; with
-- less in each, the hash itself would cost more than what is in it.
local IN_BUCKET = 32

-- Small maps are many.
local LEAST_BUCKETS = 16

local seen = {}

-- What is known of a segment's record. It has buckets for a quarter more than the last segment had, or for what is
-- expected where that is not known; they stay as many for as long as the segment is known.
local function seen_of(name)
    if not seen[name] then
        local known = redis.call('HMGET', segment_key(name), 'buckets', 'accepted')
        local buckets = tonumber(known[1])
        if not buckets then
            local last = tonumber(redis.call('HGET', NUMBERS, 'seen'))
            local expected = last and last * 5 / 4 or call.expected
            buckets = math.max(LEAST_BUCKETS, math.ceil(expected / IN_BUCKET))
            redis.call('HSET', segment_key(name), 'buckets', buckets)
        end
        seen[name] = { buckets = buckets, accepted = tonumber(known[2]) or 0 }
    end
    return seen[name]
end

-- Tells whether a fingerprint is new in the segment; now it is seen.
local function is_new(name, fingerprint)
    local record, digest, numbers = seen_of(name), redis.sha1hex(fingerprint), {}
    for place = 1, 4 do
        numbers[place] = tonumber(string.sub(digest, 8 * place - 7, 8 * place), 16)
    end
    local bucket = numbers[1] % record.buckets
    local print = struct.pack('>I4I4I2', numbers[2], numbers[3], numbers[4] % 2 ^ 16)
    local found = redis.call('HGET', seen_key(name), bucket) or ''
    local place = string.find(found, print, 1, true)
    while place and place % #print ~= 1 do
        -- The end of one and the beginning of the next.
        place = string.find(found, print, place + 1, true)
    end
    if place then
        return false
    end
    redis.call('HSET', seen_key(name), bucket, found .. print)
    record.accepted = record.accepted + 1
    return true
end
