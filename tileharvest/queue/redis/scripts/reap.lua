-- Tells that the worker is alive, and takes back the leases of workers that were silent for too long. ARGV goes on with:
-- what the worker says of itself; the seconds of silence; how often a request may lose its worker until it gets the
-- priority that follows; the reason for which it is given up after as many losses again.

local facts, silent, most, last, reason = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]
local heard = redis.call('ZSCORE', P .. 'workers', worker)
if not heard then
    -- It has signed off, or it was gone for the others. Then it becomes a worker again when it leases.
    return
end
redis.call('ZADD', P .. 'workers', now, worker)
redis.call('HSET', P .. 'facts', worker, facts)
if now - heard > silent then
    -- The server itself may have been away. The others have the time until the next call to tell that they are alive.
    return
end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', P .. 'workers', '-inf', now - silent)) do
    for _, id in ipairs(redis.call('SMEMBERS', P .. 'leases:' .. gone)) do
        local lost = redis.call('HINCRBY', entry(id), 'lost', 1)
        if lost >= 2 * most then
            take(id)
            fail(id, reason)
        else
            if lost >= most then
                redis.call('HSET', entry(id), 'priority', last)
            end
            wait(id)
        end
    end
    redis.call('DEL', P .. 'leases:' .. gone)
    redis.call('ZREM', P .. 'workers', gone)
    redis.call('HDEL', P .. 'facts', gone)
end
