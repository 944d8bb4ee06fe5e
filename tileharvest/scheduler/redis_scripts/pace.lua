-- How much a worker may lease, and when: its part of the concurrency, its part of what waits, and the rate.
-- Stands before `exchange.lua`, after `fleet.lua`.
--
-- pace: concurrency, seconds between two requests (0: none), for what is not in Redis; in_flight

-- Seconds by which requests are leased before they may start: what the rate brings meanwhile is fetched with
-- one call. What is leased is not taken back by a rest, so it is kept short.
local HORIZON = 0.5
-- Seconds after which it is worth asking again for what was held back. Of several workers that the rate holds
-- back any may find what it brings, so each asks less often, up to so many times. One without a share has long.
local AGAIN, LESS_OFTEN, AGAIN_WITHOUT_SHARE = 0.1, 3, 0.5

local function share_of(record)
    local fine, facts = pcall(cmsgpack.unpack, record)
    if not fine or type(facts) ~= 'table' then
        return nil
    end
    local segment, joined, told, counted = unpack(facts, 1, 4)
    if type(joined) == 'number' and is_whole(told) and is_whole(counted) then
        return { segment = segment, joined = joined, told = told, counted = counted }
    end
    return nil
end

local function living(now)
    local alive = { [call.client] = true }
    local after = string.format('(%.17g', now - SILENT)
    for _, worker in ipairs(redis.call('ZRANGEBYSCORE', WORKERS, after, '+inf')) do
        alive[worker] = true
    end
    return alive
end

-- The shares of this worker, and of the others of its segment; and how much all others may have on the way.
local function shares(now)
    local alive, records = living(now), redis.call('HGETALL', SHARES)
    local own = { segment = call.joined, joined = now, told = 0, counted = 0 }
    local others, taken = {}, 0
    for place = 1, #records, 2 do
        local worker, share = records[place], share_of(records[place + 1])
        if not share or not alive[worker] then
            redis.call('HDEL', SHARES, worker)
        elseif worker == call.client then
            own = share
        else
            share.worker = worker
            taken = taken + share.counted
            if share.segment == call.joined then
                others[#others + 1] = share
            end
        end
    end
    return own, others, taken
end

-- What this worker would have if all were told theirs. Who came first is first to have one more.
local function fair_share(own, others, concurrency)
    local before = 0
    for _, other in ipairs(others) do
        local is_older = other.joined < own.joined
        if is_older or (other.joined == own.joined and other.worker < call.client) then
            before = before + 1
        end
    end
    local number = #others + 1
    return math.floor(concurrency / number) + (before < concurrency % number and 1 or 0)
end

-- This worker's share, nil if it has not joined; and among how many what waits is divided. A worker counts
-- with what it was told last, as it may start that much until it hears of less, and with what it has on the
-- way. So all together never have more on the way than the concurrency.
local function share_out(now)
    local number = 0
    if not call.joined then
        for _ in pairs(living(now)) do
            number = number + 1
        end
        return nil, number
    end
    local concurrency = tonumber(redis.call('HGET', NUMBERS, 'concurrency')) or call.pace[1]
    local own, others, taken = shares(now)
    local told = fair_share(own, others, concurrency)
    if told > own.told then
        told = math.max(0, math.min(told, concurrency - taken))
    end
    local counted = math.max(own.told, told, call.in_flight)
    redis.call('HSET', SHARES, call.client, pack({ call.joined, own.joined, told, counted }))
    return told, math.min(#others + 1, concurrency)
end

-- What the host allows now: the rate as virtual scheduling has it (ITU-T I.371, the generic cell rate
-- algorithm): `slot` is when the next request may start. What was not used is not saved up.
local function host_at(now)
    if not call.joined then
        return { slot = 0, spacing = 0, rest = 0 }
    end
    local known = redis.call('HMGET', HOST, 'rest', 'slot')
    local spacing = tonumber(redis.call('HGET', NUMBERS, 'spacing')) or call.pace[2]
    local rest = tonumber(known[1]) or 0
    local slot = spacing > 0 and math.max(tonumber(known[2]) or 0, now) or 0
    return { slot = slot, spacing = spacing, rest = rest }
end

-- How many of those wanted may be leased.
local function allowed(wanted, share, parts, host, now)
    if share == 0 or host.rest > now then
        return 0
    end
    local most = math.min(wanted, math.ceil(waiting() / parts))
    if host.spacing > 0 then
        -- A billionth, as the slots that were added up are not exact.
        local slots = math.floor((now + HORIZON - host.slot) / host.spacing + 1e-9) + 1
        -- Divided too: else whoever asks first has all of them, and the host is asked from one address.
        most = math.max(0, math.min(most, math.ceil(slots / parts)))
    end
    return most
end

-- When to ask again for what waits; nil if nothing does, or all was leased that was wanted.
local function held_until(leased, share, parts, host, now)
    local has_all = leased > 0 and leased == call.wanted
    if has_all or (not share and parts == 1) or waiting() == 0 then
        return nil
    end
    local pause = AGAIN
    if share == 0 then
        pause = AGAIN_WITHOUT_SHARE
    elseif host.slot > now then
        pause = AGAIN * math.min(parts, LESS_OFTEN)
    end
    return math.max(now + pause, host.rest, host.slot - HORIZON)
end

local function keep_slot(host, now)
    redis.call('HSET', HOST, 'slot', host.slot)
    redis.call('EXPIRE', HOST, math.ceil(host.slot - now) + call.remembered)
end
