-- What the four scripts have in common. It is put before each of them.
--
-- KEYS[1] is the prefix of the queue's keys. ARGV begins with: what the queue was born with; the time, or nothing for
-- the server's; the name of the worker, or nothing for a command.
--
-- The keys: `queue` (format, birth, the last id), `segments` (each with the time when it was opened), `done` (the number
-- of finished requests of each), `seen:SEGMENT`, `entry:ID` (a request), `slots` (those with a request that waits),
-- `waiting:SLOT` (ids by priority), `delayed` (ids by time), `failed` (ids by time), `leases:WORKER` (ids),
-- `workers` (each with the time when it was last heard of), `facts` (what each says of itself), `notes`.

local P, worker = KEYS[1], ARGV[3]
local time = redis.call('TIME')
local now = tonumber(ARGV[2]) or time[1] + time[2] / 1e6

if redis.call('HGET', P .. 'queue', 'born') ~= ARGV[1] then
    return redis.error_reply('LOST what it knew')
end

local function entry(id)
    return P .. 'entry:' .. id
end

-- Lets a request wait in its place.
local function wait(id)
    local slot, priority = unpack(redis.call('HMGET', entry(id), 'slot', 'priority'))
    redis.call('SADD', P .. 'slots', slot)
    redis.call('ZADD', P .. 'waiting:' .. slot, 0 - priority, id)
end

-- Takes a request from wherever it is.
local function take(id)
    local slot, holder = unpack(redis.call('HMGET', entry(id), 'slot', 'worker'))
    redis.call('ZREM', P .. 'waiting:' .. slot, id)
    if redis.call('EXISTS', P .. 'waiting:' .. slot) == 0 then
        redis.call('SREM', P .. 'slots', slot)
    end
    redis.call('ZREM', P .. 'delayed', id)
    redis.call('ZREM', P .. 'failed', id)
    redis.call('SREM', P .. 'leases:' .. holder, id)
end

local function fail(id, reason)
    redis.call('HSET', entry(id), 'reason', reason)
    redis.call('ZADD', P .. 'failed', now, id)
end
