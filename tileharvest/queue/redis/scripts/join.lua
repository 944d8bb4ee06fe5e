-- The worker works for a harvest from now on. Whether its first requests are still to be pushed.
--
-- segments: the name of its segment

return once(function()
    local now, segment = clock(), call.segments[1]
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
    return not harvest.is_seeded
end)
