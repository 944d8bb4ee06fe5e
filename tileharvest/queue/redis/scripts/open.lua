-- Begins to work on the queue if it has this format, and if the user may call every command of the scripts.
--
-- format, client: of the worker
--
-- The answer: a word, and what Redis or the queue says.

-- The commands of all scripts. A command that is refused in the middle of a script would leave half of the work done,
-- so all are tried here, on a key that has no other use.
local TRIED = {
    { 'UNLINK' }, { 'HSET', 'field', 1 }, { 'HSETNX', 'field', 1 }, { 'HINCRBY', 'field', 1 }, { 'HGET', 'field' },
    { 'HMGET', 'field' }, { 'HGETALL' }, { 'HLEN' }, { 'HVALS' }, { 'HSCAN', 0 }, { 'HDEL', 'field' },
    { 'ZADD', 1, 'member' }, { 'ZINCRBY', 1, 'member' }, { 'ZSCORE', 'member' }, { 'ZCARD' }, { 'ZRANGE', 0, 0 },
    { 'ZREVRANGE', 0, 0 }, { 'ZRANGEBYSCORE', 0, 0 }, { 'ZREMRANGEBYSCORE', 0, 0 }, { 'ZREM', 'none' },
    { 'ZPOPMIN' }, { 'EXPIRE', 1 }, { 'UNLINK' }, { 'RPUSH', 'none' }, { 'LLEN' }, { 'UNLINK' }, { 'SET', 1 },
    { 'GET' }, { 'UNLINK' },
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
-- A program beside the workers changes nothing here.
local refused = call.worker and refusal()
if refused then
    return pack({ 'not permitted', refused })
elseif call.worker then
    redis.call('HSET', NUMBERS, 'format', call.format)
    heartbeat()
end
return pack({ 'open', '' })
