-- Applies the changes of a worker, then leases as many requests as it wants.
--
-- number: the number of the call
-- pushed: segment, priority, attempt, due or false, fingerprint or false, body
-- taken_up: numbers of failures
-- finished: id, attempt, segment; failed: id, attempt, reason; returned, cut_off: id, attempt
-- is_seeded: whether all first requests of the harvest have been pushed now
-- joined, harvest: the segment and the harvest for which the worker works, or false
-- wanted: the number of leases; minus_share
--
-- The answer: the number of duplicates; the number of refused leases; the time at which the next delayed request is
-- due, or false; the number of leases of others; whether something is left that is due; the number of the dead; the
-- leases, each with id, attempt, priority, segment and body; and what is known of the segment without name, in which a
-- person's orders are: fields and values in turn.

-- Queues an entry if it is new, and returns whether it is.
local function push(id, segment, priority, attempt, due, fingerprint, body)
    if fingerprint and not is_new(segment, fingerprint) then
        return false
    end
    local request = { priority = priority, attempt = attempt, segment = segment, body = body }
    keep(id, request)
    if due and due + shift > now then
        redis.call('ZADD', DELAYED, due + shift, id)
    else
        let_wait(id, request)
    end
    return true
end

-- Queues all entries that are new, and returns the number of the others. Segments are opened in the order of their
-- first entries, which is the order of their age.
local function push_all()
    local duplicates, is_open, last = 0, {}, #call.pushed > 0 and new_ids(#call.pushed)
    for number, entry in ipairs(call.pushed) do
        if not push(id_of(last + number), unpack(entry)) then
            duplicates = duplicates + 1
        end
    end
    for name, record in pairs(seen) do
        redis.call('HSET', segment_key(name), 'accepted', record.accepted)
        if name ~= '' then
            redis.call('HSET', NUMBERS, 'seen', record.accepted)
        end
    end
    for _, entry in ipairs(call.pushed) do
        if not is_open[entry[1]] then
            is_open[entry[1]] = true
            open_segment(entry[1])
        end
    end
    return duplicates
end

local ended = {}

-- Ends each of these leases that this worker holds, and calls `work` for it, once. Returns the number of leases that
-- the worker does not hold.
local function end_all(leases, work)
    local ids = {}
    for _, lease in ipairs(leases) do
        local id = held(lease)
        if id and not ended[id] then
            ended[id] = true
            ids[#ids + 1] = id
            work(id, lease[3])
        end
    end
    let_go(ids, call.client)
    return #leases - #ids
end

local function finish_all(leases)
    local finished, done = {}, {}
    local refused = end_all(leases, function(id, segment)
        finished[#finished + 1] = id
        done[segment] = (done[segment] or 0) + 1
    end)
    apply('HDEL', REQUESTS, finished)
    for segment, number in pairs(done) do
        if redis.call('HINCRBY', segment_key(segment), 'done', number) == number then
            -- The key is new: what was known of the segment had expired.
            open_segment(segment)
        end
    end
    return refused
end

-- Notes that the harvest is seeded. Takes the right to end the harvest from a worker that has pushed something new.
local function note_progress(accepted)
    local harvest = call.joined and segment_key(call.joined)
    if harvest and redis.call('HGET', harvest, 'harvest') == call.harvest then
        if call.is_seeded and redis.call('HGET', CLIENT, 'unseeded') ~= call.harvest then
            redis.call('HSET', harvest, 'is_seeded', 1)
        end
        if accepted > 0 and redis.call('HGET', harvest, 'closer') == call.client then
            redis.call('HDEL', harvest, 'closer')
        end
    end
end

-- Applies the changes. Returns the number of duplicates, and the number of refused leases.
local function take_in()
    local duplicates = push_all()
    for _, failure in ipairs(call.taken_up) do
        redis.call('HDEL', FAILURES, id_of(failure))
    end
    local refused = finish_all(call.finished) + end_all(call.failed, give_up)
    refused = refused + end_all(call.returned, function(id)
        let_wait(id)
    end)
    refused = refused + end_all(call.cut_off, function(id)
        local request = request_of(id)
        if request then
            let_wait_again(id, request)
        end
    end)
    note_progress(#call.pushed - duplicates)
    return duplicates, refused
end

-- Removes the next id from its lane and returns it, or returns nil if nothing waits.
local is_empty = {}
local function next_id(is_turn_of_minus)
    for _, lane in ipairs(is_turn_of_minus and { MINUS, PLUS, NORMAL } or { PLUS, NORMAL, MINUS }) do
        local id = not is_empty[lane] and redis.call('ZPOPMIN', lane)[1]
        if id then
            return id
        end
        is_empty[lane] = true
    end
    return nil
end

-- Returns how many of the wanted leases the worker may have: an equal part of what waits for each worker that is
-- alive. Otherwise the worker that asks first would get everything.
local function part_of(wanted)
    local after = string.format('(%.17g', now - call.lease_seconds)
    local living = redis.call('ZRANGEBYSCORE', WORKERS, after, '+inf')
    return math.min(wanted, math.ceil(waiting() / math.max(1, #living)))
end

local function in_answer(id, request)
    return { tonumber(id), request.attempt, request.priority, request.segment, request.body }
end

-- Leases so many requests, and returns them as in the answer. Of `minus_share` offers to all workers together one is
-- taken from the minus lane first. A record that is no request does not count.
local function lease(wanted)
    local leased, holders, ends = {}, {}, {}
    local offers, share = tonumber(redis.call('HGET', NUMBERS, 'offers')) or 0, call.minus_share
    while #leased < wanted do
        offers = offers + 1
        local id = next_id(share > 0 and offers % share == 0)
        if not id then
            break
        end
        local request = request_of(id)
        if request then
            leased[#leased + 1] = in_answer(id, request)
            holders[#holders + 1] = id
            holders[#holders + 1] = string.format('%s %d %.3f', call.client, request.attempt, now)
            ends[#ends + 1] = now + call.lease_seconds
            ends[#ends + 1] = id
        end
    end
    apply('HSET', HOLDERS, holders)
    apply('ZADD', LEASES, ends)
    if #leased > 0 then
        redis.call('HINCRBY', HELD, call.client, #leased)
        redis.call('HINCRBY', NUMBERS, 'offers', #leased)
    end
    return leased
end

-- Returns those of these leases, given by id and attempt, that are still held.
local function leased_before(leases)
    local leased = {}
    for _, one in ipairs(leases) do
        local id = held(one)
        local request = id and look_at(id)
        leased[#leased + 1] = request and in_answer(id, request)
    end
    return leased
end

-- Returns the answer. `result` has duplicates, refused, and whether something is left that is due.
local function answered(result, leases)
    local duplicates, refused, has_more = unpack(result)
    local due = redis.call('ZRANGE', DELAYED, 0, 0, 'WITHSCORES')[2]
    local next_due, dead = due and tonumber(due) - shift, redis.call('LLEN', DEAD)
    local holds = tonumber(redis.call('HGET', HELD, call.client)) or 0
    local elsewhere = math.max(0, redis.call('ZCARD', LEASES) - holds)
    local orders = redis.call('HGETALL', segment_key(''))
    return pack({ duplicates, refused, next_due or false, elsewhere, has_more, dead, leases, orders })
end

-- A call whose answer did not arrive comes again with its number. It is then answered again, with those of its leases
-- that are still held, and nothing is applied twice.
local last = redis.call('HMGET', CLIENT, 'number', 'answer')
local number = tonumber(last[1])
if number and number > call.number then
    -- This call was late: nobody waits for its answer any more.
    error('a call came after its successor')
elseif number == call.number then
    local result, leases = cmsgpack.unpack(last[2])
    return answered(result, leased_before(leases))
end

if (number or 0) ~= call.number - 1 then
    -- The last calls of this worker are lost, as a replica has taken over that had not heard of them. The requests
    -- that they have pushed are lost, too, and are found again when the requests above them are made again. So all
    -- leases of this worker are taken back, and none of them is ended. Lost first requests have none above them:
    -- unless the harvest was seeded before, this worker can never say that it is.
    for _, id in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do
        local holder = redis.call('HGET', HOLDERS, id)
        if holder and string.match(holder, '^%S+') == call.client then
            take_back(id, true)
        end
    end
    if call.joined and not redis.call('HGET', segment_key(call.joined), 'is_seeded') then
        redis.call('HSET', CLIENT, 'unseeded', call.harvest)
    end
end
settle()
local duplicates, refused = take_in()
heartbeat()
local leased = lease(part_of(call.wanted))
local result, leases = { duplicates, refused, waiting() > 0 }, {}
for place, one in ipairs(leased) do
    leases[place] = { one[1], one[2] }
end
redis.call('HSET', CLIENT, 'number', call.number, 'answer', pack(result, leases))
redis.call('EXPIRE', CLIENT, call.remembered)
return answered(result, leased)
