-- What a request goes through. Stands before every script, after `common.lua`.

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
            give_up(request, (string.gsub(call.expired, '{attempts}', request.attempt)), now)
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
        local id, own = ids[number], call.client .. ' ' .. string.format('%d ', leases[number][2])
        if holder and string.sub(holder, 1, #own) == own then
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
