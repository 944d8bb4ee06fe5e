-- Takes start URLs for one process. Before, gives back the start URLs of processes that were silent for long. Stands
-- alone.
--
-- KEYS: the start URLs; the processes that have taken some, each with the time when it was last heard of; the start
-- URLs that this process has taken.
-- ARGV: the type of the first key (list, set or zset); the name of this process; the number that it wants; the seconds
-- of silence after which a process counts as gone; the prefix of the keys of what processes have taken.
-- The answer: the start URLs that were taken. A member of a sorted set is kept behind its score and a space.

local source, processes, own = KEYS[1], KEYS[2], KEYS[3]
local kind, process, wanted, silent, prefix = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6

local function put_back(kept)
    if kind == 'list' then
        redis.call('LPUSH', source, kept)
    elseif kind == 'set' then
        redis.call('SADD', source, kept)
    else
        local score, member = string.match(kept, '^(%S+) (.*)$')
        redis.call('ZADD', source, score, member)
    end
end

local function next_one()
    if kind == 'list' then
        return redis.call('LPOP', source)
    elseif kind == 'set' then
        return redis.call('SPOP', source)
    end
    local popped = redis.call('ZPOPMAX', source)
    return popped[1] and popped[2] .. ' ' .. popped[1]
end

for _, gone in ipairs(redis.call('ZRANGEBYSCORE', processes, '-inf', now - silent)) do
    if gone ~= process then
        local taken = redis.call('LRANGE', prefix .. gone, 0, -1)
        for place = #taken, 1, -1 do
            put_back(taken[place])
        end
        redis.call('DEL', prefix .. gone)
        redis.call('ZREM', processes, gone)
    end
end

local found = {}
while #found < wanted do
    local kept = next_one()
    if not kept then
        break
    end
    redis.call('RPUSH', own, kept)
    found[#found + 1] = kind == 'zset' and string.match(kept, '^%S+ (.*)$') or kept
end
if redis.call('EXISTS', own) == 1 then
    redis.call('ZADD', processes, now, process)
end
return found
