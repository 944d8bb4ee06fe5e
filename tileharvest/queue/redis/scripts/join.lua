-- Lets the worker work for a harvest from now on. Returns whether its first requests are still to be pushed.
--
-- joined, harvest: the segment and the name of the harvest

local harvest = redis.call('HGET', segment_key(call.joined), 'harvest')
if harvest and harvest ~= call.harvest then
    drop_segment(call.joined)
end
open_segment(call.joined)
redis.call('HSET', segment_key(call.joined), 'harvest', call.harvest)
heartbeat()
return pack(not redis.call('HGET', segment_key(call.joined), 'is_seeded'))
