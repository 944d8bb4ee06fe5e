-- How far the harvest is, in a word. Nothing of it is left when nothing is left at all, but for what a person
-- has pushed for later: what is of another segment is made too, or dropped by who leases it.
--
-- was_seeded: whether the worker knows that all first requests were pushed

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

local function ending(now)
    settle(now)
    heartbeat(now, 0)
    local answer = pack(word(now))
    remember(answer)
    return answer
end

return recall() or ending((clock()))
