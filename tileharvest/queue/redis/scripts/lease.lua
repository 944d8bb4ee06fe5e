-- Leases requests to the worker. ARGV[4] is JSON: their number, the ids of the leases that the worker has, and how many
-- it has under way by slot. The answer: whether more is due; when the next delayed request is due, or nothing; the
-- number of leases of other workers; and the leases: id, attempt, body, priority and slot of each.

local wanted = cjson.decode(ARGV[4])
local own = P .. 'leases:' .. worker
local leases = {}

redis.call('ZADD', P .. 'workers', now, worker)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. 'delayed', '-inf', now, 'LIMIT', 0, 1000)) do
    redis.call('ZREM', P .. 'delayed', id)
    wait(id)
end

local function hand_out(id)
    leases[#leases + 1] = redis.call('HMGET', entry(id), 'attempt', 'body', 'priority', 'slot')
    table.insert(leases[#leases], 1, id)
end

if redis.call('SCARD', own) > #wanted.held then
    local held = {}
    for _, id in ipairs(wanted.held) do
        held[string.format('%016d', id)] = true
    end
    for _, id in ipairs(redis.call('SMEMBERS', own)) do
        if not held[id] then
            hand_out(id)
        end
    end
end

-- The first request of each slot.
local first = {}

local function look(slot, under_way)
    local found = redis.call('ZRANGE', P .. 'waiting:' .. slot, 0, 0, 'WITHSCORES')
    first[slot] = found[1] and {tonumber(found[2]), under_way, found[1]} or nil
    if not found[1] then
        redis.call('SREM', P .. 'slots', slot)
    end
end

local function is_before(one, other)
    for place = 1, 3 do
        if one[place] ~= other[place] then
            return one[place] < other[place]
        end
    end
end

local held, elsewhere, waiting = redis.call('SCARD', own), 0, 0
for _, one in ipairs(redis.call('ZRANGE', P .. 'workers', 0, -1)) do
    if one ~= worker then
        elsewhere = elsewhere + redis.call('SCARD', P .. 'leases:' .. one)
    end
end
for _, slot in ipairs(redis.call('SMEMBERS', P .. 'slots')) do
    look(slot, wanted.under_way[slot] or 0)
    waiting = waiting + redis.call('ZCARD', P .. 'waiting:' .. slot)
end
-- Nobody holds more than a worker's part of all requests, so that of a few each worker has some.
local part = math.ceil((waiting + held + elsewhere) / redis.call('ZCARD', P .. 'workers'))
local number = math.min(wanted.number, #leases + math.max(0, part - held))
while #leases < number do
    local best
    for slot, one in pairs(first) do
        if not best or is_before(one, first[best]) then
            best = slot
        end
    end
    if not best then
        break
    end
    local _, under_way, id = unpack(first[best])
    redis.call('ZREM', P .. 'waiting:' .. best, id)
    redis.call('SADD', own, id)
    redis.call('HSET', entry(id), 'worker', worker)
    redis.call('HINCRBY', entry(id), 'attempt', 1)
    hand_out(id)
    look(best, under_way + 1)
end

local next_due = redis.call('ZRANGE', P .. 'delayed', 0, 0, 'WITHSCORES')
return {redis.call('EXISTS', P .. 'slots'), next_due[2] or '', elsewhere, leases}
