-- Returns in a word how far the harvest is. It is over when nothing is left but requests that a person has pushed for
-- later. Requests of other segments count: the worker that leases one makes it or drops it.
--
-- joined, harvest: the segment and the harvest for which the worker works
-- was_seeded: whether the worker knows that all first requests were pushed
-- is_over: whether the worker ends the harvest now

local SEGMENT = segment_key(call.joined)
local found = redis.call('HMGET', SEGMENT, 'harvest', 'is_seeded', 'has_ended', 'closer')
local harvest, is_seeded, has_ended, closer = unpack(found)

local function is_left()
    for _, id in ipairs(redis.call('ZRANGE', DELAYED, 0, -1)) do
        local request = look_at(id)
        if request and request.segment ~= '' then
            return true
        end
    end
    return waiting() + redis.call('ZCARD', LEASES) > 0
end

heartbeat()
settle()
if call.is_over then
    -- Unless another worker has the right to end it by now.
    if harvest == call.harvest and not is_closed_elsewhere(closer) then
        redis.call('HSET', SEGMENT, 'has_ended', 1)
        redis.call('HDEL', SEGMENT, 'closer')
    end
    return pack('ended')
elseif not harvest or (call.was_seeded and not is_seeded and harvest == call.harvest) then
    return pack('lost')
elseif harvest ~= call.harvest then
    -- Another one has taken its place.
    return pack('ended')
elseif is_left() then
    return pack('goes on')
elseif has_ended then
    return pack('ended')
elseif is_closed_elsewhere(closer) then
    return pack('goes on')
end
redis.call('HSET', SEGMENT, 'closer', call.client)
return pack('yours')
