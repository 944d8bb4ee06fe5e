-- What a run of the map may spend, its workers together: requests, bytes, and the seconds of `worked.lua`.
--
-- opens: requests, bytes and seconds of the budget, false where there is no limit; or else false, and
-- wanted, returned: requests and bytes
--
-- The answer is a word, and whether others hold what they may return.

-- What is left, by name, and how long the run may take; what is not there has no limit, but for the first,
-- which tells that it was opened.
local LEFT, LIMITS = { 'requests', 'bytes' }, { 'requests', 'bytes', 'seconds' }

local function field_of(worker)
    return 'held by ' .. worker
end

-- What a worker was granted and has not returned, when it asked last, and whether it has nothing to return.
local function held_of_worker(record)
    local fine, held = pcall(cmsgpack.unpack, record or '')
    if fine and type(held) == 'table' and is_whole(held[1]) and is_whole(held[2]) then
        return held
    end
    return { 0, 0, 0, false }
end

-- What each other worker holds that has opened the purse and is alive.
local function others_in(now)
    local found, others = redis.call('HGETALL', PURSE), {}
    for place = 1, #found, 2 do
        local worker = string.match(found[place], '^held by (%S+)$')
        if worker and worker ~= call.client and is_alive(worker, now) then
            others[#others + 1] = held_of_worker(found[place + 1])
        end
    end
    return others
end

-- One that asked in vain, or has returned all that is left, has nothing but what is on the way, and nobody
-- waits for one that has not asked for long: else two who have spent all would wait for each other.
local function others_hold(now)
    for _, held in ipairs(others_in(now)) do
        local may_return = held[1] + held[2] > 0 and not held[4]
        if may_return and type(held[3]) == 'number' and held[3] > now - SILENT then
            return true
        end
    end
    return false
end

local function open(now)
    if #others_in(now) == 0 then
        redis.call('DEL', PURSE)
        redis.call('HSET', PURSE, 'is_open', 1)
        for number, name in ipairs(LIMITS) do
            if call.opens[number] then
                redis.call('HSET', PURSE, name, call.opens[number])
            end
        end
    end
    if not redis.call('HGET', PURSE, field_of(call.client)) then
        redis.call('HSET', PURSE, field_of(call.client), pack({ 0, 0, now, false }))
    end
    return 'granted'
end

local function grant(now)
    local known = redis.call('HMGET', PURSE, 'is_open', field_of(call.client), unpack(LEFT))
    if not known[1] then
        return 'lost'
    end
    local held, left, is_granted, wants = held_of_worker(known[2]), {}, true, false
    for number in ipairs(LEFT) do
        local returned = math.min(call.returned[number], held[number])
        held[number] = held[number] - returned
        left[number] = known[number + 2] and tonumber(known[number + 2]) + returned or math.huge
        is_granted = is_granted and call.wanted[number] <= left[number]
        wants = wants or call.wanted[number] > 0
    end
    for number, name in ipairs(LEFT) do
        if is_granted then
            held[number] = held[number] + call.wanted[number]
            left[number] = left[number] - call.wanted[number]
        end
        if left[number] < math.huge then
            redis.call('HSET', PURSE, name, left[number])
        end
    end
    held[3] = now
    held[4] = not (wants and is_granted)
    redis.call('HSET', PURSE, field_of(call.client), pack(held))
    return is_granted and 'granted' or 'refused'
end

local function purse(now)
    heartbeat(now, 0)
    local word = call.opens and open(now) or grant(now)
    local answer = pack({ word, others_hold(now) })
    remember(answer)
    return answer
end

return recall() or purse((clock()))
