-- Applies what a worker has to tell, then leases what it wants.
--
-- number: of the call
-- pushed: segment, priority, attempt, due or false, fingerprint or false, body
-- keeps_doubtful: whether what is dropped as seen is kept
-- taken_up: numbers of failures
-- finished: id, attempt, segment; failed: id, attempt, reason; returned: id, attempt
-- is_seeded: whether all first requests of the harvest have been pushed now
-- joined, harvest: what the worker works for, if it does
-- wanted, minus_share
--
-- The answer: duplicates, refused, when the next is due or false, leases of others, end of the leases, whether
-- something is left that is due, how many are dead, segments whose filters have grown (name, seen, added), and
-- the leases: id, attempt, priority, segment, body.

-- Whether it is to be made.
local function push(segment, priority, attempt, due, fingerprint, body)
    if fingerprint and not is_new(segment, fingerprint) then
        if call.keeps_doubtful then
            -- It may be an error.
            redis.call('HSET', doubtful_key(segment), fingerprint, body)
        end
        return false
    end
    local id = new_id()
    keep(id, { priority = priority, attempt = attempt, segment = segment, body = body })
    if due and due + shift > now then
        redis.call('ZADD', DELAYED, due + shift, id)
    else
        let_wait(id)
    end
    return true
end

-- How many were dropped. Segments are opened in the order in which they come, which is that of their age.
local function push_all()
    local duplicates, is_open = 0, {}
    for _, entry in ipairs(call.pushed) do
        if not push(unpack(entry)) then
            duplicates = duplicates + 1
        end
    end
    for name, filter in pairs(filters) do
        redis.call('HSET', segment_key(name), 'accepted', filter.accepted)
        redis.call('HSET', NUMBERS, 'seen', filter.accepted)
    end
    for _, entry in ipairs(call.pushed) do
        if not is_open[entry[1]] then
            is_open[entry[1]] = true
            open_segment(entry[1])
        end
    end
    return duplicates
end

-- Does something with each of these leases that this worker holds. How many it does not hold.
local function end_all(leases, work)
    local refused = 0
    for _, lease in ipairs(leases) do
        local id = held(lease)
        if id then
            let_go(id)
            work(id, lease[3])
        else
            refused = refused + 1
        end
    end
    return refused
end

local function finish(id, segment)
    redis.call('HDEL', REQUESTS, id)
    if redis.call('HINCRBY', segment_key(segment), 'done', 1) == 1 then
        -- What was known of it may have ended by time.
        open_segment(segment)
    end
end

-- Something new of this harvest ends the right to end it.
local function note_progress(accepted)
    local harvest = call.joined and segment_key(call.joined)
    if harvest and redis.call('HGET', harvest, 'harvest') == call.harvest then
        if call.is_seeded then
            redis.call('HSET', harvest, 'is_seeded', 1)
        end
        if accepted > 0 and redis.call('HGET', harvest, 'closer') == call.client then
            redis.call('HDEL', harvest, 'closer')
        end
    end
end

-- The duplicates, and how many leases were refused.
local function take_in()
    local duplicates = push_all()
    for _, failure in ipairs(call.taken_up) do
        redis.call('HDEL', FAILURES, id_of(failure))
    end
    local refused = end_all(call.finished, finish) + end_all(call.failed, give_up)
    refused = refused + end_all(call.returned, let_wait)
    note_progress(#call.pushed - duplicates)
    return duplicates, refused
end

-- The id of what is offered next: of so many offers one is taken from minus first. False if nothing waits.
local function next_id()
    local turn = call.minus_share > 0 and redis.call('HINCRBY', NUMBERS, 'offers', 1) % call.minus_share == 0
    for _, lane in ipairs(turn and { MINUS, PLUS, NORMAL } or { PLUS, NORMAL, MINUS }) do
        local id = redis.call('ZPOPMIN', lane)[1]
        if id then
            return id
        end
    end
    return false
end

-- For one of so many that are alive: else whoever asks first has all that waits.
local function part_of(wanted)
    local after = string.format('(%.17g', now - call.lease_seconds)
    local living = redis.call('ZRANGEBYSCORE', WORKERS, after, '+inf')
    return math.min(wanted, math.ceil(waiting() / math.max(1, #living)))
end

-- Ids and attempts of what is leased now. What was buried is made up for.
local function lease(wanted, expiry)
    local leased = {}
    while #leased < wanted and waiting() > 0 do
        local id = next_id()
        local request = request_of(id)
        if request then
            leased[#leased + 1] = { tonumber(id), request.attempt }
            local holder = string.format('%s %d %.3f', call.client, request.attempt, now)
            redis.call('HSET', HOLDERS, id, holder)
            redis.call('ZADD', LEASES, expiry, id)
        end
    end
    if #leased > 0 then
        redis.call('HINCRBY', HELD, call.client, #leased)
    end
    return leased
end

-- `result`: duplicates, refused, expiry, whether something is left that is due, and what has grown
local function answered(result, leased)
    local duplicates, refused, expiry, has_more, grown = unpack(result)
    local due = redis.call('ZRANGE', DELAYED, 0, 0, 'WITHSCORES')[2]
    local holds = tonumber(redis.call('HGET', HELD, call.client)) or 0
    local elsewhere = math.max(0, redis.call('ZCARD', LEASES) - holds)
    local leases = {}
    for _, one in ipairs(leased) do
        local id = held(one)
        local request = id and request_of(id)
        if request then
            leases[#leases + 1] = { one[1], one[2], request.priority, request.segment, request.body }
        end
    end
    local next_due, dead = due and tonumber(due) - shift, redis.call('LLEN', DEAD)
    return pack({ duplicates, refused, next_due or false, elsewhere, expiry - shift, has_more, dead, grown, leases })
end

-- A call whose answer did not arrive is made again with its number, and is then only answered again: of the leases
-- with those that are still held.
local last = redis.call('HMGET', CLIENT, 'number', 'answer')
local number = tonumber(last[1])
if number and number > call.number then
    -- Nobody waits for this answer any more.
    error('a call came after its successor')
elseif number == call.number then
    return answered(cmsgpack.unpack(last[2]))
end

settle()
local duplicates, refused = take_in()
heartbeat()
local grown = {}
for name, filter in pairs(filters) do
    if filter.grown then
        grown[#grown + 1] = { name, filter.accepted, filter.grown }
    end
end
local expiry = now + call.lease_seconds
local leased = lease(part_of(call.wanted), expiry)
local result = { duplicates, refused, expiry, waiting() > 0, grown }
redis.call('HSET', CLIENT, 'number', call.number, 'answer', pack(result, leased))
redis.call('EXPIRE', CLIENT, call.remembered)
return answered(result, leased)
