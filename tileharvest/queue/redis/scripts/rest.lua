-- The host of the key HOST is left alone for so long. Of several rests the one that ends last counts: the answer
-- is for how many seconds from now on.
--
-- seconds

local function rest(now)
    local known = redis.call('HMGET', HOST, 'rest', 'slot', 'probe')
    local rests = math.max(tonumber(known[1]) or 0, now + call.seconds)
    redis.call('HSET', HOST, 'rest', rests)
    keep_host({ rest = rests, slot = tonumber(known[2]) or 0, probe = tonumber(known[3]) or 0 }, now)
    local answer = pack(rests - now)
    remember(answer)
    return answer
end

return recall() or rest((clock()))
