-- Begins to work on the queue, if it is one, of this format, and all that will be done is allowed.
--
-- format; the answer is a word and what it says

local TYPES = {
    'zset', 'zset', 'zset', 'zset', 'hash', 'hash', 'hash', 'zset', 'hash', 'hash',
    'zset', 'hash', 'hash', 'hash', 'hash', 'hash', 'list', 'zset',
    'hash',
}

-- Every command of the scripts that may be forbidden to a user: one that is refused in the middle of a
-- script would leave half of it done. The last key is one for trying, in no other use.
local TRIED = {
    { 'DEL' }, { 'SET', 1 }, { 'GET' }, { 'DEL' }, { 'HSET', 'field', 1 }, { 'HINCRBY', 'field', 1 }, { 'HGET', 'field' }, { 'HMGET', 'field' },
    { 'HLEN' }, { 'HGETALL' }, { 'HKEYS' }, { 'HVALS' }, { 'HSCAN', 0 }, { 'HDEL', 'field' },
    { 'ZADD', 1, 'member' }, { 'ZSCORE', 'member' }, { 'ZCARD' }, { 'ZRANGE', 0, 0 }, { 'ZREVRANGE', 0, 0 },
    { 'ZRANGEBYSCORE', 0, 0 }, { 'ZREMRANGEBYSCORE', 0, 0 }, { 'ZREM', 'none' }, { 'ZPOPMIN', 1 },
    { 'SETBIT', 0, 1 }, { 'GETBIT', 0 }, { 'BITFIELD', 'SET', 'u1', 0, 1 }, { 'EXISTS' }, { 'TTL' },
    { 'EXPIRE', 1 }, { 'DEL' }, { 'RPUSH', 'none' }, { 'LLEN' }, { 'UNLINK' },
}

local function refusal()
    local key = KEYS[#KEYS]
    for _, command in ipairs(TRIED) do
        local reply = redis.pcall(command[1], key, unpack(command, 2))
        if type(reply) == 'table' and reply.err then
            redis.pcall('DEL', key)
            return reply.err
        end
    end
    return nil
end

local function stranger()
    for number, wanted in ipairs(TYPES) do
        local found = redis.call('TYPE', KEYS[number]).ok
        if found ~= 'none' and found ~= wanted then
            return KEYS[number]
        end
    end
    return nil
end

local function said(word, what)
    return array(2) .. pack(word) .. bytes(tostring(what))
end

local foreign = stranger()
if foreign then
    return said('foreign key', foreign)
end
local format = redis.call('HGET', NUMBERS, 'format')
if format and format ~= call.format then
    return said('format', format)
end
local refused = refusal()
if refused then
    return said('not permitted', refused)
end
redis.call('HSET', NUMBERS, 'format', call.format)
heartbeat((clock()), 0)
local newest = newest_segment()
return said('open', newest and redis.call('HGET', ACCEPTED, newest) or 0)
