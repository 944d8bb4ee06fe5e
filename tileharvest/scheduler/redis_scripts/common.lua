-- Stands before every script: the keys, the clock, and what a request goes through.
--
-- One argument: a map in MessagePack, of which each script says what it reads. The answer is MessagePack
-- too, so that it is one string for the client, whatever its size. Nothing that is read from Redis is
-- trusted: what cannot be a request is buried, and never stops the others.

local PLUS, NORMAL, MINUS, DELAYED = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- By id: the request; its attempt if it is another than that of the request; who holds it.
local REQUESTS, ATTEMPTS, HOLDERS = KEYS[5], KEYS[6], KEYS[7]
-- Ids of what is leased, by the end of the lease; and how many each worker holds.
local LEASES, HELD = KEYS[8], KEYS[9]
local FAILURES = KEYS[10]
-- By name of the segment: in which order they were opened; shape of the filter; seen; done; remarks.
local SEGMENTS, FILTERS, ACCEPTED, DONE, REMARKS = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local NUMBERS, DEAD, WORKERS, CLIENT = KEYS[16], KEYS[17], KEYS[18], KEYS[19]
-- From here on the filters of the segments that the script is told of.
local FIRST_FILTER = 20

local call = cmsgpack.unpack(ARGV[1])
local pack = cmsgpack.pack

-- As many arguments at once as are surely allowed; even, so that pairs stay together.
local MOST = 2000

local function apply(command, key, values)
    local changed = 0
    for first = 1, #values, MOST do
        local last = math.min(first + MOST - 1, #values)
        changed = changed + redis.call(command, key, unpack(values, first, last))
    end
    return changed
end

-- The values of a hash, in the order of the fields; false for what is not there.
local function fetch(key, fields)
    local found = {}
    for first = 1, #fields, MOST do
        local last = math.min(first + MOST - 1, #fields)
        for _, value in ipairs(redis.call('HMGET', key, unpack(fields, first, last))) do
            found[#found + 1] = value
        end
    end
    return found
end

-- Bytes for the answer: cmsgpack only writes texts.
local function bytes(text)
    return '\198' .. struct.pack('>I4', #text) .. text
end

local function array(length)
    return '\221' .. struct.pack('>I4', length)
end

-- Ids have one length, so that what is equal otherwise is sorted by them, which is by arrival.
local function id_of(number)
    return string.format('%015d', number)
end

-- The last of so many new ids. They go with the time, so that a server that has lost what it had, or the
-- last second of it, does not give the ids of leases that workers still hold to other requests.
local function new_ids(number, now)
    local last = tonumber(redis.call('HGET', NUMBERS, 'id')) or 0
    last = math.max(last, math.floor(now * 1e5)) + number
    redis.call('HSET', NUMBERS, 'id', last)
    return last
end

-- The time here, and by how much that is later than on the caller's clock.
local function clock()
    if not call.server_clock then
        return call.now, 0
    end
    local time = redis.call('TIME')
    local now = time[1] + time[2] / 1e6
    return now, now - call.now
end

-- The answer of this very call, if it was made before and the answer did not arrive.
local function recall()
    local found = redis.call('HMGET', CLIENT, 'number', 'answer')
    local number = tonumber(found[1])
    if number and number > call.number then
        -- Nobody waits for this answer any more.
        error('a call came after its successor')
    end
    return number == call.number and found[2] or nil
end

local function remember(answer)
    redis.call('HSET', CLIENT, 'number', call.number, 'answer', answer)
    redis.call('EXPIRE', CLIENT, call.remembered)
end

-- The worker is alive; those that were not for long leave the list.
local function heartbeat(now)
    if not call.worker then
        return
    end
    if redis.call('HEXISTS', CLIENT, 'host') == 0 then
        redis.call('HSET', CLIENT, 'host', call.worker.host, 'pid', call.worker.pid, 'started', now)
    end
    redis.call('HSET', CLIENT, 'heartbeat', now)
    redis.call('EXPIRE', CLIENT, call.remembered)
    redis.call('ZADD', WORKERS, now + call.remembered, call.client)
    redis.call('ZREMRANGEBYSCORE', WORKERS, '-inf', now)
end

local function is_whole(value)
    return type(value) == 'number' and value == math.floor(value) and math.abs(value) <= 2 ^ 53
end

-- The request that `written` made; nil for anything else.
local function read(record)
    if not record then
        return nil
    end
    local fine, priority, attempt, segment, body = pcall(cmsgpack.unpack, record)
    fine = fine and is_whole(priority) and is_whole(attempt) and attempt >= 1
    if fine and type(segment) == 'string' and type(body) == 'string' then
        return { priority = priority, attempt = attempt, segment = segment, body = body }
    end
    return nil
end

local function written(priority, attempt, segment, body)
    return pack(priority, attempt, segment, body)
end

-- What is no request leaves the queue for the list of the dead, as it is.
local function bury(id, record, place)
    redis.call('HDEL', REQUESTS, id)
    redis.call('HDEL', ATTEMPTS, id)
    redis.call('RPUSH', DEAD, id .. ' ' .. place .. '\n' .. (record or ''))
    redis.call('HINCRBY', NUMBERS, 'dead', 1)
end

-- Those that can be read, in order, with their present attempts; the others are buried.
local function requests_of(ids)
    local found = {}
    local records, attempts = fetch(REQUESTS, ids), fetch(ATTEMPTS, ids)
    for number, id in ipairs(ids) do
        local request = read(records[number])
        if request and attempts[number] then
            request.attempt = tonumber(attempts[number])
        end
        if request and request.attempt then
            request.id = id
            found[#found + 1] = request
        else
            bury(id, records[number], records[number] and 'unreadable' or 'missing')
        end
    end
    return found
end

local function let_wait(requests)
    local lanes = { [PLUS] = {}, [NORMAL] = {}, [MINUS] = {} }
    for _, request in ipairs(requests) do
        local priority = request.priority
        local lane = lanes[priority > 0 and PLUS or priority < 0 and MINUS or NORMAL]
        lane[#lane + 1] = -priority
        lane[#lane + 1] = request.id
    end
    for lane, members in pairs(lanes) do
        apply('ZADD', lane, members)
    end
end

-- They are leased no more.
local function let_go(ids)
    local numbers = {}
    for _, holder in ipairs(fetch(HOLDERS, ids)) do
        local worker = holder and string.match(holder, '^(%S+) ')
        if worker then
            numbers[worker] = (numbers[worker] or 0) + 1
        end
    end
    for worker, number in pairs(numbers) do
        if redis.call('HINCRBY', HELD, worker, -number) <= 0 then
            redis.call('HDEL', HELD, worker)
        end
    end
    apply('HDEL', HOLDERS, ids)
    apply('ZREM', LEASES, ids)
end

local function drop(ids)
    apply('HDEL', REQUESTS, ids)
    apply('HDEL', ATTEMPTS, ids)
end

local function give_up(request, reason, now)
    local failure = id_of(new_ids(1, now))
    local record = pack(request.priority, request.attempt, request.segment, request.body, reason, now)
    redis.call('HSET', FAILURES, failure, record)
    drop({ request.id })
end

local function take_back(ids, now)
    local waiting, attempts = {}, {}
    let_go(ids)
    for _, request in ipairs(requests_of(ids)) do
        if request.attempt < call.max_attempts then
            waiting[#waiting + 1] = request
            attempts[#attempts + 1] = request.id
            attempts[#attempts + 1] = request.attempt + 1
        else
            local reason = 'not finished within %g s in %d attempts'
            give_up(request, string.format(reason, call.lease_seconds, request.attempt), now)
        end
    end
    apply('HSET', ATTEMPTS, attempts)
    let_wait(waiting)
end

-- Leases that have expired, and delayed requests that are due, go where they belong.
local function settle(now)
    local expired = redis.call('ZRANGEBYSCORE', LEASES, '-inf', now)
    table.sort(expired)
    take_back(expired, now)
    local due = redis.call('ZRANGEBYSCORE', DELAYED, '-inf', now)
    apply('ZREM', DELAYED, due)
    let_wait(requests_of(due))
end

-- The leases that this worker holds of those given.
local function held_of(leases)
    local ids, held = {}, {}
    for number, lease in ipairs(leases) do
        ids[number] = id_of(lease[1])
    end
    for number, holder in ipairs(fetch(HOLDERS, ids)) do
        local id = ids[number]
        if holder == call.client .. ' ' .. string.format('%d', leases[number][2]) then
            held[#held + 1] = { id = id, lease = leases[number] }
        end
    end
    return held
end

-- As `held_of`, but each once: to end a lease twice is to hold it once.
local function ended_of(leases)
    local ended, taken = {}, {}
    for _, one in ipairs(held_of(leases)) do
        if not taken[one.id] then
            taken[one.id] = true
            ended[#ended + 1] = one
        end
    end
    return ended
end

local function ids_of(things)
    local ids = {}
    for number, thing in ipairs(things) do
        ids[number] = thing.id
    end
    return ids
end

local function waiting()
    local lanes = redis.call('ZCARD', PLUS) + redis.call('ZCARD', NORMAL)
    return lanes + redis.call('ZCARD', MINUS)
end

local function open_segment(name)
    if not redis.call('ZSCORE', SEGMENTS, name) then
        redis.call('ZADD', SEGMENTS, redis.call('HINCRBY', NUMBERS, 'segment', 1), name)
    end
end

-- The newest segment that has a name; nil if there is none.
local function newest_segment()
    for _, name in ipairs(redis.call('ZREVRANGE', SEGMENTS, 0, 1)) do
        if name ~= '' then
            return name
        end
    end
    return nil
end
