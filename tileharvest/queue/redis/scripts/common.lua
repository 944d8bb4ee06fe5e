-- Stands before every script: the keys, the clock, and what a request goes through.
--
-- One argument: a map in MessagePack, of which each script says what it reads. The answer is MessagePack too, so
-- that it is one string for the client, whatever its size. All keys begin as the one that is named, which has the
-- map as hash tag: a cluster keeps them together. Nothing that is read from Redis is trusted: what cannot be a
-- request is buried, and never stops the others.

local call = cmsgpack.unpack(ARGV[1])
local pack = cmsgpack.pack

local function key(name)
    return KEYS[1] .. name
end

local PLUS, NORMAL, MINUS, DELAYED = key('plus'), key('normal'), key('minus'), key('delayed')
-- By id: the request; who holds it, in which attempt and since when; when the lease ends.
local REQUESTS, HOLDERS, LEASES = key('requests'), key('holders'), key('leases')
-- How many leases each worker holds, and when each was last heard of.
local HELD, WORKERS = key('held'), key('workers')
-- Names by the order in which they were opened.
local SEGMENTS = key('segments')
local FAILURES, NUMBERS, DEAD = key('failures'), key('numbers'), key('dead')
local CLIENT = key('client:' .. call.client)

-- Commands in a script cost more than what they do, so what is for many values is done at once: for as many as are
-- surely allowed, and an even number, so that pairs stay together.
local function apply(command, name, values)
    local most = 2000
    for first = 1, #values, most do
        redis.call(command, name, unpack(values, first, math.min(first + most - 1, #values)))
    end
end

-- The time here, and by how much that is later than on the caller's clock.
local now, shift = call.now, 0
if call.server_clock then
    local time = redis.call('TIME')
    now = time[1] + time[2] / 1e6
    shift = now - call.now
end

-- While Redis was away nobody could be heard, which is held against nobody: leases and workers last for so long
-- more. `call.away` says for how long this call has been tried. Where others were heard meanwhile, only the caller
-- was cut off; where it has just come, they were killed.
local last_heard = tonumber(redis.call('ZREVRANGE', WORKERS, 0, 0, 'WITHSCORES')[2]) or now
local away = math.min(now - last_heard, call.away)
if away > 1 then
    for _, set in ipairs({ WORKERS, LEASES }) do
        for _, member in ipairs(redis.call('ZRANGE', set, 0, -1)) do
            redis.call('ZINCRBY', set, away, member)
        end
    end
end

-- The worker is alive, and this is what it tells of itself. Those that were silent for long leave the list.
local function heartbeat()
    if call.worker then
        redis.call('HSET', CLIENT, 'facts', call.worker)
        redis.call('EXPIRE', CLIENT, call.remembered)
        redis.call('ZADD', WORKERS, now, call.client)
        redis.call('ZREMRANGEBYSCORE', WORKERS, '-inf', now - call.lease_seconds)
    end
end

-- Ids have one length, so that what is equal otherwise is sorted by them, which is by arrival.
local function id_of(number)
    return string.format('%015d', number)
end

-- The number before so many new ids. They go with the time: a server that has lost what it had, or the last second
-- of it, does not give the ids of leases that workers still hold to other requests.
local function new_ids(number)
    local last = tonumber(redis.call('HGET', NUMBERS, 'id')) or 0
    last = math.max(last, math.floor(now * 1e5))
    redis.call('HSET', NUMBERS, 'id', last + number)
    return last
end

local function is_whole(value)
    return type(value) == 'number' and value == math.floor(value) and math.abs(value) <= 2 ^ 53
end

-- The request that `keep` wrote; nil for anything else.
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

-- The request of this id, or nil for what is none. Changes nothing.
local function look_at(id)
    local record = redis.call('HGET', REQUESTS, id)
    return record and read(record), record
end

-- The request of this id. What is none leaves the queue for the list of the dead, as it is; then nil. Only for an id
-- that has been taken from where it was.
local function request_of(id)
    local request, record = look_at(id)
    if not request then
        redis.call('HDEL', REQUESTS, id)
        redis.call('RPUSH', DEAD, id .. (record and ' unreadable\n' .. record or ' missing\n'))
    end
    return request or nil
end

-- The request is read if it is not given.
local function let_wait(id, request)
    request = request or request_of(id)
    if request then
        local priority = request.priority
        redis.call('ZADD', priority > 0 and PLUS or priority < 0 and MINUS or NORMAL, -priority, id)
    end
end

-- They are leased to this worker no more.
local function let_go(ids, worker)
    if #ids > 0 and redis.call('HINCRBY', HELD, worker, -#ids) <= 0 then
        redis.call('HDEL', HELD, worker)
    end
    apply('HDEL', HOLDERS, ids)
    apply('ZREM', LEASES, ids)
end

-- It is leased no more, to whomever.
local function withdraw(id)
    local holder = redis.call('HGET', HOLDERS, id)
    let_go({ id }, holder and string.match(holder, '^%S+') or '')
end

-- It goes to the failure list.
local function give_up(id, reason)
    local request = request_of(id)
    if request then
        local record = pack({ request.priority, request.attempt, request.segment, request.body, reason, now })
        redis.call('HSET', FAILURES, id_of(new_ids(1) + 1), record)
        redis.call('HDEL', REQUESTS, id)
    end
end

-- It waits for its next attempt.
local function let_wait_again(id, request)
    request.attempt = request.attempt + 1
    keep(id, request)
    let_wait(id, request)
end

-- A lease that is held no more waits for its next attempt, or goes to the failure list when it has had all of them.
-- `is_blameless`: that it ended was no fault of it, so that it is never given up. Its attempt counts all the same, as
-- it tells the new lease from the old one.
local function take_back(id, is_blameless)
    withdraw(id)
    local request = request_of(id)
    if request and (is_blameless or request.attempt < call.max_attempts) then
        let_wait_again(id, request)
    elseif request then
        give_up(id, (string.gsub(call.expired, '{attempts}', request.attempt)))
    end
end

-- Leases that have expired, and delayed requests that are due, go where they belong.
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

-- The id of a lease, given by id and attempt, if this worker holds it.
local function held(lease)
    local id, own = id_of(lease[1]), string.format('%s %d ', call.client, lease[2])
    local holder = redis.call('HGET', HOLDERS, id)
    return holder and string.sub(holder, 1, #own) == own and id or nil
end

local function waiting()
    return redis.call('ZCARD', PLUS) + redis.call('ZCARD', NORMAL) + redis.call('ZCARD', MINUS)
end
