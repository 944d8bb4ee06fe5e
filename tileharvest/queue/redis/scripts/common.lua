-- Stands before every script: the keys, the clock, and who calls.
--
-- One argument: a map in MessagePack, of which each script says what it reads. The answer is MessagePack
-- too, so that it is one string for the client, whatever its size. Nothing that is read from Redis is
-- trusted: what cannot be a request is buried, and never stops the others.

local PLUS, NORMAL, MINUS, DELAYED = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- By id: the request; its attempt if it is another than that of the request; who holds it, in which attempt
-- and since when.
local REQUESTS, ATTEMPTS, HOLDERS = KEYS[5], KEYS[6], KEYS[7]
-- Ids of what is leased, by the end of the lease; and how many each worker holds.
local LEASES, HELD = KEYS[8], KEYS[9]
local FAILURES = KEYS[10]
-- By name of the segment: in which order they were opened; shape of the filter; seen; done; remarks.
local SEGMENTS, FILTERS, ACCEPTED, DONE, REMARKS = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
-- Workers by when they were last heard of.
local NUMBERS, DEAD, WORKERS = KEYS[16], KEYS[17], KEYS[18]
-- By segment what is known of its harvest.
local HARVESTS, CLIENT = KEYS[19], KEYS[20]
-- From here on two keys for each segment that the script is told of.
local FIRST_OF_SEGMENTS = 21

-- Seconds over which a worker's rate is taken.
local WINDOW = 5

local call = cmsgpack.unpack(ARGV[1])
local pack = cmsgpack.pack
-- Seconds after which a worker that was not heard of is taken for gone.
local SILENT = call.silent

local function filter_key(number)
    return KEYS[FIRST_OF_SEGMENTS + 2 * number - 2]
end

local function doubtful_key(number)
    return KEYS[FIRST_OF_SEGMENTS + 2 * number - 1]
end

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

-- Further fields and values are kept with it.
local function remember(answer, ...)
    redis.call('HSET', CLIENT, 'number', call.number, 'answer', answer, ...)
    redis.call('EXPIRE', CLIENT, call.remembered)
end

-- The answer of the work, which is done once, however often this very call is made.
local function once(work)
    local answer = recall()
    if not answer then
        answer = pack(work())
        remember(answer)
    end
    return answer
end

-- The worker is alive, and has finished so many more; those that were not heard of for long leave the list.
local function heartbeat(now, finished)
    if not call.worker then
        return
    end
    local known = redis.call('HMGET', CLIENT, 'host', 'finished', 'window', 'counted')
    local began, counted = tonumber(known[3]) or now, (tonumber(known[4]) or 0) + finished
    local facts = { 'heartbeat', now, 'finished', (tonumber(known[2]) or 0) + finished }
    local function add(name, value)
        facts[#facts + 1] = name
        facts[#facts + 1] = value
    end
    if now - began >= WINDOW then
        add('rate', counted / (now - began))
        began, counted = now, 0
    end
    add('window', began)
    add('counted', counted)
    if not known[1] then
        add('started', now)
        add('segment', call.joined or '')
        for name, value in pairs(call.worker) do
            add(name, value)
        end
    end
    redis.call('HSET', CLIENT, unpack(facts))
    redis.call('EXPIRE', CLIENT, call.remembered)
    redis.call('ZADD', WORKERS, now, call.client)
    redis.call('ZREMRANGEBYSCORE', WORKERS, '-inf', now - call.listed)
end
