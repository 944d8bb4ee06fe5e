-- How much a worker may lease, and when: its part of the concurrency, its part of what waits, and the gaps.
-- Stands before `exchange.lua`, after `fleet.lua`, `limits.lua` and `shares.lua`.
--
-- pace: see `limits.lua`; false for who keeps none

-- Seconds by which requests are leased before they may start: what the gaps allow meanwhile is fetched with
-- one call. What is leased is not taken back by a rest, so it is kept short.
local HORIZON = 0.5
-- Seconds after which it is worth asking again for what was held back. Of several workers that a gap holds
-- back any may find what there is, so each asks less often, up to so many times. One without a share has
-- time.
local AGAIN, LESS_OFTEN, AGAIN_WITHOUT_SHARE = 0.1, 3, 0.5

local function number_of_living(now)
    local after = string.format('(%.17g', now - SILENT)
    local is_listed, living = false, redis.call('ZRANGEBYSCORE', WORKERS, after, '+inf')
    for _, worker in ipairs(living) do
        is_listed = is_listed or worker == call.client
    end
    return #living + (is_listed and 0 or 1)
end

-- What holds now, for this worker; without a share for who keeps no pace.
local function pace_at(now)
    if not (call.pace and call.worker) then
        local nothing = { least = 0, most = 0, slot = 0, rest = 0 }
        return { map = nothing, host = nothing, parts = number_of_living(now), host_parts = 1 }
    end
    local pace = { map = limits_of(NUMBERS, told_of_map()), host = limits_of(HOST, told_of_host()) }
    local is_busy = call.in_flight > 0 or (call.wanted > 0 and waiting() > 0)
    pace.share, pace.parts, pace.host_parts = share_out(pace.map, pace.host, is_busy, now)
    return pace
end

local function has_gap(pace)
    return pace.map.most > 0 or pace.host.most > 0
end

-- When the next request may start: virtual scheduling as in the generic cell rate algorithm (ITU-T I.371),
-- with two slots. What was not used is not saved up.
local function next_start(pace, now)
    return math.max(now, pace.map.slot, pace.host.slot)
end

-- The start of one more request; 0 where there is no gap.
local function take_start(pace, now)
    if not has_gap(pace) then
        return 0
    end
    local start = next_start(pace, now)
    for _, limits in ipairs({ pace.map, pace.host }) do
        if limits.most > 0 then
            limits.last, limits.slot = start, start + draw(limits.least, limits.most)
        end
    end
    return start
end

-- So many were leased.
local function keep_slots(pace, leased, now)
    for _, limits in ipairs({ pace.map, pace.host }) do
        if leased > 0 and limits.most > 0 then
            redis.call('HSET', limits.key, 'slot', limits.slot, 'last', limits.last)
        end
    end
    if pace.share then
        keep_host(pace.host, now)
    end
end

-- How many starts there are within the horizon, for one of so many who share them: else whoever asks first
-- has all of them, and the host is asked from one address, or by one map.
local function starts_within(limits, start, parts, now)
    if limits.most == 0 then
        return math.huge
    end
    -- A billionth, as the slots that were added up are not exact.
    local mean = (limits.least + limits.most) / 2
    local starts = math.floor((now + HORIZON - start) / mean + 1e-9) + 1
    return math.max(0, math.ceil(starts / parts))
end

-- How many of those wanted may be leased.
local function allowed(wanted, pace, now)
    if pace.share == 0 or pace.host.rest > now then
        return 0
    end
    local start = next_start(pace, now)
    local of_map = starts_within(pace.map, start, pace.parts, now)
    local of_host = starts_within(pace.host, start, pace.host_parts, now)
    return math.min(wanted, math.ceil(waiting() / pace.parts), of_map, of_host)
end

-- When to ask again for what waits; nil if nothing does, or all was leased that was wanted.
local function held_until(leased, pace, now)
    local has_all = leased > 0 and leased == call.wanted
    if has_all or (not pace.share and pace.parts == 1) or waiting() == 0 then
        return nil
    end
    local start, parts = next_start(pace, now), math.max(pace.parts, pace.host_parts)
    -- Who has got some leaves the next to the others.
    local ahead = leased > 0 and parts > 1 and HORIZON / 2 or HORIZON
    local pause = AGAIN
    if pace.share == 0 then
        pause = AGAIN_WITHOUT_SHARE
    elseif start > now then
        pause = AGAIN * math.min(parts, LESS_OFTEN)
    end
    return math.max(now + pause, pace.host.rest, start - ahead)
end
