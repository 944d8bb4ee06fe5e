-- The harvest has ended, unless another worker has the right to end it by now. Wakes all others.
--
-- channel

local function ended(now)
    local harvest = harvest_of(call.joined)
    local is_mine = harvest and harvest.name == call.harvest and not is_closed_elsewhere(harvest, now)
    heartbeat(now, 0)
    if is_mine then
        harvest.has_ended, harvest.closer = true, ''
        keep_harvest(call.joined, harvest)
        -- Whoever may not publish can work nevertheless: the others find it when they look.
        redis.pcall('PUBLISH', call.channel, call.client)
    end
    local answer = pack(is_mine == true)
    remember(answer)
    return answer
end

return recall() or ended((clock()))
