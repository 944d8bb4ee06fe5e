-- Stands before every script: the keys, the clock, and the steps that move a request.
--
-- ARGV[1] is a table in MessagePack. The head of each script lists the fields that it reads. The answer is
-- MessagePack, too, so that it is one string for the client, whatever its size. KEYS[1] is the prefix of all keys.
-- It has the map as hash tag, so that a cluster keeps the keys together. No script trusts what it reads from Redis:
-- a record that is no request moves to the list of the dead, and never stops the others.

local call = cmsgpack.unpack(ARGV[1])
local pack = cmsgpack.pack

local function key(name)
    return KEYS[1] .. name
end

local PLUS, NORMAL, MINUS, DELAYED = key('plus'), key('normal'), key('minus'), key('delayed')
-- By id: the request; its holder with attempt and time of the lease; the time at which the lease ends.
local REQUESTS, HOLDERS, LEASES = key('requests'), key('holders'), key('leases')
-- By worker: the number of its leases, and the time when it was last heard of.
local HELD, WORKERS = key('held'), key('workers')
-- The names of segments in the order in which they were opened.
local SEGMENTS = key('segments')
local FAILURES, NUMBERS, DEAD = key('failures'), key('numbers'), key('dead')
local CLIENT = key('client:' .. call.client)

-- Calls a command for many values at once, because a call costs more than its work. The number of values in a call is
-- within Lua's limit, and even, so that pairs stay together.
local function apply(command, name, values)
    local most = 2000
    for first = 1, #values, most do
        redis.call(command, name, unpack(values, first, math.min(first + most - 1, #values)))
    end
end

-- The present time, and the seconds by which it is ahead of the caller's clock.
local now, shift = call.now, 0
if call.server_clock then
    local time = redis.call('TIME')
    now = time[1] + time[2] / 1e6
    shift = now - call.now
end

-- While Redis was away it could hear no worker. So all leases and workers last for as long again. `call.away` says for
-- how many seconds this call has been tried. If others were heard meanwhile, only the caller was cut off. If this
-- call was not tried for long, but nobody was heard for long, the others were killed.
local last_heard = tonumber(redis.call('ZREVRANGE', WORKERS, 0, 0, 'WITHSCORES')[2]) or now
local away = math.min(now - last_heard, call.away)
if away > 1 then
    for _, set in ipairs({ WORKERS, LEASES }) do
        for _, member in ipairs(redis.call('ZRANGE', set, 0, -1)) do
            redis.call('ZINCRBY', set, away, member)
        end
    end
end

-- Notes that the worker is alive, and what it tells of itself. Removes the workers that were silent for long.
local function heartbeat()
    if call.worker then
        redis.call('HSET', CLIENT, 'facts', call.worker)
        redis.call('EXPIRE', CLIENT, call.remembered)
        redis.call('ZADD', WORKERS, now, call.client)
        redis.call('ZREMRANGEBYSCORE', WORKERS, '-inf', now - call.lease_seconds)
    end
end

-- Returns an id for a number. All ids have one length, so that Redis sorts entries of one priority by arrival.
local function id_of(number)
    return string.format('%015d', number)
end

-- Reserves so many ids, and returns the number before the first. Ids rise with the time: so a server that has lost
-- its last second, or everything, does not give the ids of leases that workers still hold to other requests.
local function new_ids(number)
    local last = tonumber(redis.call('HGET', NUMBERS, 'id')) or 0
    last = math.max(last, math.floor(now * 1e5))
    redis.call('HSET', NUMBERS, 'id', last + number)
    return last
end

local function is_whole(value)
    return type(value) == 'number' and value == math.floor(value) and math.abs(value) <= 2 ^ 53
end

-- Returns the request that `keep` has written, or nil for any other record.
local function read(record)
    local fine, priority, attempt, segment, body = pcall(cmsgpack.unpack, record)
    fine = fine and is_whole(priority) and is_whole(attempt) and attempt >= 1
    if fine and type(segment) == 'string' and type(body) == 'string' then
        return { priority = priority, attempt = attempt, segment = segment, body = body }
    end
    return nil
end

local function keep(id, request)
    redis.call('HSET', REQUESTS, id, pack(request.priority, request.attempt, request.segment, request.body))
end

-- Returns the request of this id, or nil if there is none, and its record. Changes nothing.
local function look_at(id)
    local record = redis.call('HGET', REQUESTS, id)
    return record and read(record), record
end

-- Returns the request of this id. If its record is no request, moves the record to the list of the dead, and returns
-- nil. The caller must have removed the id from its lane or from the leases.
local function request_of(id)
    local request, record = look_at(id)
    if not request then
        redis.call('HDEL', REQUESTS, id)
        redis.call('RPUSH', DEAD, id .. (record and ' unreadable\n' .. record or ' missing\n'))
    end
    return request or nil
end

-- Lets the request wait in its lane. Reads the request if the caller does not give it.
local function let_wait(id, request)
    request = request or request_of(id)
    if request then
        local priority = request.priority
        redis.call('ZADD', priority > 0 and PLUS or priority < 0 and MINUS or NORMAL, -priority, id)
    end
end

-- Ends these leases of this worker.
local function let_go(ids, worker)
    if #ids > 0 and redis.call('HINCRBY', HELD, worker, -#ids) <= 0 then
        redis.call('HDEL', HELD, worker)
    end
    apply('HDEL', HOLDERS, ids)
    apply('ZREM', LEASES, ids)
end

-- Ends the lease of this id, whoever holds it.
local function withdraw(id)
    local holder = redis.call('HGET', HOLDERS, id)
    let_go({ id }, holder and string.match(holder, '^%S+') or '')
end

-- Moves the request to the failure list.
local function give_up(id, reason)
    local request = request_of(id)
    if request then
        local record = pack({ request.priority, request.attempt, request.segment, request.body, reason, now })
        redis.call('HSET', FAILURES, id_of(new_ids(1) + 1), record)
        redis.call('HDEL', REQUESTS, id)
    end
end

-- Lets the request wait for its next attempt.
local function let_wait_again(id, request)
    request.attempt = request.attempt + 1
    keep(id, request)
    let_wait(id, request)
end

-- Takes back a lease: the request waits for its next attempt, or goes to the failure list after its last one. With
-- `is_blameless` the request is never given up, because the end of the lease was not its fault. The attempt counts
-- all the same, as it tells the new lease from the old one.
local function take_back(id, is_blameless)
    withdraw(id)
    local request = request_of(id)
    if request and (is_blameless or request.attempt < call.max_attempts) then
        let_wait_again(id, request)
    elseif request then
        give_up(id, (string.gsub(call.expired, '{attempts}', request.attempt)))
    end
end

-- Takes back expired leases, and lets delayed requests that are due wait in their lanes.
local function settle()
    local expired = redis.call('ZRANGEBYSCORE', LEASES, '-inf', now)
    table.sort(expired)
    for _, id in ipairs(expired) do
        take_back(id)
    end
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', now)) do
        redis.call('ZREM', DELAYED, id)
        let_wait(id)
    end
end

-- Returns the id of a lease, which is given by id and attempt, or nil if this worker does not hold it.
local function held(lease)
    local id, own = id_of(lease[1]), string.format('%s %d ', call.client, lease[2])
    local holder = redis.call('HGET', HOLDERS, id)
    return holder and string.sub(holder, 1, #own) == own and id or nil
end

local function waiting()
    return redis.call('ZCARD', PLUS) + redis.call('ZCARD', NORMAL) + redis.call('ZCARD', MINUS)
end
