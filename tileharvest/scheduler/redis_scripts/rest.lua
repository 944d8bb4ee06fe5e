-- The host of the key HOST is left alone for so long. Of several rests the one that ends last counts.
--
-- seconds

local function rest(now)
    local known = redis.call('HMGET', HOST, 'rest', 'slot')
    local rests = math.max(tonumber(known[1]) or 0, now + call.seconds)
    local slot = math.max(tonumber(known[2]) or 0, rests)
    redis.call('HSET', HOST, 'rest', rests, 'slot', slot)
    redis.call('EXPIRE', HOST, math.ceil(slot - now) + call.remembered)
    local answer = pack(true)
    remember(answer)
    return answer
end

return recall() or rest((clock()))
