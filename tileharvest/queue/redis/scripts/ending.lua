-- How far the harvest is, in a word. Nothing of it is left when nothing is left at all, but for what a person
-- has pushed for later: what is of another segment is made too, or dropped by who leases it.
--
-- was_seeded: whether the worker knows that all first requests were pushed
-- is_over: whether the worker ends the harvest now; channel, on which all others are woken then

local function has_delayed()
    for _, request in ipairs(requests_of(redis.call('ZRANGE', DELAYED, 0, -1))) do
        if request.segment ~= '' then
            return true
        end
    end
    return false
end

local function word(now)
    local harvest = harvest_of(call.joined)
    if not harvest or (call.was_seeded and not harvest.is_seeded and harvest.name == call.harvest) then
        return 'lost'
    elseif harvest.name ~= call.harvest then
        -- Another one has taken its place.
        return 'ended'
    elseif waiting() + redis.call('ZCARD', LEASES) > 0 or has_delayed() then
        return 'goes on'
    elseif harvest.has_ended then
        return 'ended'
    elseif is_closed_elsewhere(harvest, now) then
        return 'goes on'
    end
    harvest.closer = call.client
    keep_harvest(call.joined, harvest)
    return 'yours'
end

-- The harvest has ended, unless another worker has the right to end it by now.
local function end_it(now)
    local harvest = harvest_of(call.joined)
    if not harvest or harvest.name ~= call.harvest or is_closed_elsewhere(harvest, now) then
        return 'goes on'
    end
    harvest.has_ended, harvest.closer = true, ''
    keep_harvest(call.joined, harvest)
    -- Whoever may not publish can work nevertheless: the others find it when they look.
    redis.pcall('PUBLISH', call.channel, call.client)
    return 'ended'
end

return once(function()
    local now = clock()
    heartbeat(now, 0)
    if call.is_over then
        return end_it(now)
    end
    settle(now)
    return word(now)
end)
