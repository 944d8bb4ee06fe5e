-- Applies what a worker has to tell, then leases what it wants.
--
-- segments: name, filter (see `filter.lua`)
-- pushed: number of the segment, priority, attempt, due or false, places in the filter or false, body,
-- fingerprint or false, under which it is kept if it is dropped as seen
-- taken_up: numbers of failures
-- finished: id, attempt, number of the segment; failed: id, attempt, reason; returned: id, attempt
-- is_seeded: whether all first requests of the harvest have been pushed now
-- wanted, minus_share, channel
-- share: requests that the worker may have on the way, false if that is not limited

-- Whether an entry was seen may be an error, so that it is kept as long as the filter.
local function doubt(dropped)
    for segment, values in pairs(dropped) do
        apply('HSET', doubtful_key(segment), values)
        redis.call('EXPIRE', doubtful_key(segment), call.kept)
    end
end

-- Those to be queued.
local function accept(entries)
    local accepted, filters, dropped = {}, {}, {}
    for _, entry in ipairs(entries) do
        local segment, positions = entry[1], entry[5]
        if positions and not filters[segment] then
            filters[segment] = asking(segment)
        end
        if not positions or is_new(filters[segment], positions) then
            accepted[#accepted + 1] = entry
        elseif entry[7] then
            local values = dropped[segment] or {}
            dropped[segment] = values
            values[#values + 1] = entry[7]
            values[#values + 1] = entry[6]
        end
    end
    doubt(dropped)
    for segment, filter in pairs(filters) do
        redis.call('HINCRBY', ACCEPTED, call.segments[segment].name, filter.new)
    end
    return accepted
end

-- In the order in which they come, which is that of their age.
local function open_segments(entries)
    local is_open = {}
    for _, entry in ipairs(entries) do
        if not is_open[entry[1]] then
            is_open[entry[1]] = true
            open_segment(call.segments[entry[1]].name)
        end
    end
end

local function push(entries, now, shift)
    local accepted = accept(entries)
    if #accepted > 0 then
        local last = new_ids(#accepted, now)
        local records, ready, delayed = {}, {}, {}
        for number, entry in ipairs(accepted) do
            local id, due = id_of(last - #accepted + number), entry[4]
            records[#records + 1] = id
            records[#records + 1] = written(entry[2], entry[3], call.segments[entry[1]].name, entry[6])
            if due and due + shift > now then
                delayed[#delayed + 1] = due + shift
                delayed[#delayed + 1] = id
            else
                ready[#ready + 1] = { id = id, priority = entry[2] }
            end
        end
        apply('HSET', REQUESTS, records)
        apply('ZADD', DELAYED, delayed)
        let_wait(ready)
    end
    return #entries - #accepted
end

-- The following three return how many were refused.

local function finish(leases)
    local held, done = ended_of(leases), {}
    for _, one in ipairs(held) do
        local segment = one.lease[3]
        done[segment] = (done[segment] or 0) + 1
    end
    local ids = ids_of(held)
    let_go(ids)
    drop(ids)
    for segment, number in pairs(done) do
        redis.call('HINCRBY', DONE, call.segments[segment].name, number)
    end
    return #leases - #held
end

local function fail(leases, now)
    local held, reasons = ended_of(leases), {}
    for _, one in ipairs(held) do
        reasons[one.id] = one.lease[3]
    end
    local ids = ids_of(held)
    let_go(ids)
    for _, request in ipairs(requests_of(ids)) do
        give_up(request, reasons[request.id], now)
    end
    return #leases - #held
end

local function give_back(leases)
    local ids = ids_of(ended_of(leases))
    let_go(ids)
    let_wait(requests_of(ids))
    return #leases - #ids
end

-- Takes up to so many ids from the front of a lane.
local function pop(lane, number, ids)
    if number > 0 then
        local popped = redis.call('ZPOPMIN', lane, number)
        for place = 1, #popped, 2 do
            ids[#ids + 1] = popped[place]
        end
    end
end

-- For each offer whether minus is asked: when it is its turn, or nothing else waits.
local function turns(wanted)
    local front = redis.call('ZCARD', PLUS) + redis.call('ZCARD', NORMAL)
    local minus = redis.call('ZCARD', MINUS)
    local offers = tonumber(redis.call('HGET', NUMBERS, 'offers')) or 0
    local is_minus, from_minus = {}, 0
    for number = 1, math.min(wanted, front + minus) do
        local its_turn = call.minus_share > 0 and (offers + number) % call.minus_share == 0
        is_minus[number] = from_minus < minus and (its_turn or number - from_minus > front)
        if is_minus[number] then
            from_minus = from_minus + 1
        end
    end
    if #is_minus > 0 then
        redis.call('HINCRBY', NUMBERS, 'offers', #is_minus)
    end
    return is_minus, from_minus
end

-- Takes up to so many ids from the lanes, in the order in which they are to be offered.
local function take(wanted)
    local is_minus, from_minus = turns(wanted)
    local front, minus, ids = {}, {}, {}
    pop(MINUS, from_minus, minus)
    pop(PLUS, #is_minus - from_minus, front)
    pop(NORMAL, #is_minus - from_minus - #front, front)
    local next_front, next_minus = 1, 1
    for number, from in ipairs(is_minus) do
        if from then
            ids[number], next_minus = minus[next_minus], next_minus + 1
        else
            ids[number], next_front = front[next_front], next_front + 1
        end
    end
    return ids
end

-- For one of so many that are alive: else whoever asks first has all that waits.
local function part(wanted, now)
    local after = string.format('(%.17g', now - SILENT)
    local living = redis.call('ZRANGEBYSCORE', WORKERS, after, '+inf')
    return math.min(wanted, math.ceil(waiting() / math.max(1, #living)))
end

local function lease(wanted, expiry, now)
    local leased, holders, ends = {}, {}, {}
    local since = string.format(' %.3f', now)
    repeat
        local ids = take(wanted - #leased)
        for _, request in ipairs(requests_of(ids)) do
            leased[#leased + 1] = request
            holders[#holders + 1] = request.id
            holders[#holders + 1] = call.client .. ' ' .. string.format('%d', request.attempt) .. since
            ends[#ends + 1] = expiry
            ends[#ends + 1] = request.id
        end
    -- What was buried is made up for.
    until #leased >= wanted or #ids == 0
    apply('HSET', HOLDERS, holders)
    apply('ZADD', LEASES, ends)
    if #leased > 0 then
        redis.call('HINCRBY', HELD, call.client, #leased)
    end
    return leased
end

local function lines_of(leased)
    local lines = {}
    for number, request in ipairs(leased) do
        local head = pack(tonumber(request.id), request.attempt, request.priority)
        lines[number] = array(5) .. head .. bytes(request.segment) .. bytes(request.body)
    end
    return array(#lines) .. table.concat(lines)
end

-- `result`: duplicates, refused, expiry, and whether something is left that is due
local function answered(shift, result, buried, leased)
    local due = redis.call('ZRANGE', DELAYED, 0, 0, 'WITHSCORES')[2]
    local next_due = due and tonumber(due) - shift or nil
    local holds = tonumber(redis.call('HGET', HELD, call.client)) or 0
    local elsewhere = math.max(0, redis.call('ZCARD', LEASES) - holds)
    local head = pack('done', result.duplicates, result.refused, next_due, elsewhere)
    local tail = pack(result.expiry - shift, buried, result.has_more)
    return array(9) .. head .. tail .. lines_of(leased)
end

-- What an earlier, equal call answered: of the leases those that are still held.
local function again(remembered, shift)
    local result, leases = cmsgpack.unpack(remembered)
    return answered(shift, result, 0, requests_of(ids_of(held_of(leases))))
end

-- Something new of this harvest ends the right to end it.
local function note_progress(accepted)
    local harvest = call.joined and (call.is_seeded or accepted > 0) and harvest_of(call.joined)
    if not harvest or harvest.name ~= call.harvest then
        return
    end
    local is_closer = accepted > 0 and harvest.closer == call.client
    if is_closer or (call.is_seeded and not harvest.is_seeded) then
        harvest.is_seeded = harvest.is_seeded or call.is_seeded
        harvest.closer = is_closer and '' or harvest.closer
        keep_harvest(call.joined, harvest)
    end
end

local function keep_answer(result, leased)
    local leases = {}
    for number, request in ipairs(leased) do
        leases[number] = { tonumber(request.id), request.attempt }
    end
    remember(pack(result, leases), 'share', call.share or '')
end

-- The duplicates, and how many leases were refused.
local function take_in(now, shift)
    local duplicates = push(call.pushed, now, shift)
    local taken_up = {}
    for number, failure in ipairs(call.taken_up) do
        taken_up[number] = id_of(failure)
    end
    apply('HDEL', FAILURES, taken_up)
    local refused = finish(call.finished) + fail(call.failed, now)
    heartbeat(now, #call.finished + #call.failed - refused)
    note_progress(#call.pushed - duplicates)
    return duplicates, refused + give_back(call.returned)
end

local function dead()
    return tonumber(redis.call('HGET', NUMBERS, 'dead')) or 0
end

local function exchange(now, shift)
    local buried, was_empty = dead(), waiting() == 0
    settle(now)
    local result = { expiry = now + call.lease_seconds }
    result.duplicates, result.refused = take_in(now, shift)
    local leased = lease(part(call.wanted, now), result.expiry, now)
    result.has_more = waiting() > 0
    keep_answer(result, leased)
    if was_empty and waiting() > 0 then
        -- Whoever may not publish can work nevertheless: the others find it when they look.
        redis.pcall('PUBLISH', call.channel, call.client)
    end
    return answered(shift, result, dead() - buried, leased)
end

local now, shift = clock()
local remembered = recall()
if remembered then
    return again(remembered, shift)
end
open_segments(call.pushed)
local others = other_filters()
if others then
    return others
end
return exchange(now, shift)
