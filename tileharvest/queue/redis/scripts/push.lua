-- Queues requests. ARGV goes on with: segment, fingerprint or nothing, priority, time before which it is not offered or
-- nothing, slot, and body of each. The answer: the places, from 0, of those that were not accepted.

local duplicates = {}
for place = 4, #ARGV, 6 do
    local segment, fingerprint, priority, due, slot, body = unpack(ARGV, place, place + 5)
    redis.call('ZADD', P .. 'segments', 'NX', now, segment)
    if fingerprint ~= '' and redis.call('SADD', P .. 'seen:' .. segment, fingerprint) == 0 then
        duplicates[#duplicates + 1] = (place - 4) / 6
    else
        -- Equal scores are in the order of the text.
        local id = string.format('%016d', redis.call('HINCRBY', P .. 'queue', 'last', 1))
        redis.call('HSET', entry(id), 'segment', segment, 'fingerprint', fingerprint, 'priority', priority,
            'slot', slot, 'body', body, 'attempt', 0, 'lost', 0, 'worker', '')
        if due ~= '' and tonumber(due) > now then
            redis.call('ZADD', P .. 'delayed', due, id)
        else
            wait(id)
        end
    end
end
return duplicates
