-- Whether this worker alone may find out, for so many seconds, if the host of the key HOST answers again.
--
-- seconds

local function claim(now)
    local known = redis.call('HMGET', HOST, 'rest', 'slot', 'probe')
    local host = { rest = tonumber(known[1]) or 0, slot = tonumber(known[2]) or 0 }
    host.probe = tonumber(known[3]) or 0
    local is_free = host.probe <= now
    if is_free then
        host.probe = now + call.seconds
        redis.call('HSET', HOST, 'probe', host.probe)
        keep_host(host, now)
    end
    local answer = pack(is_free)
    remember(answer)
    return answer
end

return recall() or claim((clock()))
