-- Begins to work on the queue, if it is one of this format, and all that will be done is allowed.
--
-- format, client; the answer is a word and what it says

-- Every command of the scripts that may be forbidden to a user: one that is refused in the middle of a
-- script would leave half of it done. The key is one for trying, in no other use.
local TRIED = {
    { 'UNLINK' }, { 'HSET', 'field', 1 }, { 'HSETNX', 'field', 1 }, { 'HINCRBY', 'field', 1 }, { 'HGET', 'field' },
    { 'HMGET', 'field' }, { 'HLEN' }, { 'HVALS' }, { 'HSCAN', 0 }, { 'HDEL', 'field' }, { 'ZADD', 1, 'member' },
    { 'ZINCRBY', 1, 'member' }, { 'ZSCORE', 'member' }, { 'ZCARD' }, { 'ZRANGE', 0, 0 }, { 'ZREVRANGE', 0, 0 },
    { 'ZRANGEBYSCORE', 0, 0 }, { 'ZREMRANGEBYSCORE', 0, 0 }, { 'ZREM', 'none' }, { 'ZPOPMIN' },
    { 'EXPIRE', 1 }, { 'UNLINK' }, { 'RPUSH', 'none' }, { 'LLEN' }, { 'UNLINK' }, { 'SET', 1 }, { 'GET' },
    { 'UNLINK' },
}

local function refusal()
    local trial = key('trial')
    for _, command in ipairs(TRIED) do
        local reply = redis.pcall(command[1], trial, unpack(command, 2))
        if type(reply) == 'table' and reply.err then
            redis.pcall('UNLINK', trial)
            return reply.err
        end
    end
    return nil
end

local format = redis.call('HGET', NUMBERS, 'format')
if format and format ~= call.format then
    return pack({ 'format', format })
end
-- A program beside the workers changes nothing before it has something to tell.
local refused = call.worker and refusal()
if refused then
    return pack({ 'not permitted', refused })
elseif call.worker then
    redis.call('HSET', NUMBERS, 'format', call.format)
    heartbeat()
end
return pack({ 'open', '' })
