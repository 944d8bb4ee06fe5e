-- The worker works for a harvest from now on. Whether its first requests are still to be pushed.
--
-- segments: the name of its segment

local function join(now)
    local segment = call.segments[1]
    local harvest = harvest_of(segment)
    if harvest and harvest.name ~= call.harvest then
        drop_segments()
        harvest = nil
    end
    open_segment(segment)
    if not harvest then
        harvest = { name = call.harvest, is_seeded = false, has_ended = false, closer = '' }
        keep_harvest(segment, harvest)
    end
    heartbeat(now, 0)
    redis.call('HSET', CLIENT, 'segment', segment, 'share', '')
    local answer = pack(not harvest.is_seeded)
    remember(answer)
    return answer
end

return recall() or join((clock()))
