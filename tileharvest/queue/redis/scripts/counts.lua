-- How much is where, and for how many seconds the oldest lease has been held.

-- When it was handed out; nil if nothing is leased.
local function oldest_lease()
    local oldest
    for _, holder in ipairs(redis.call('HVALS', HOLDERS)) do
        local since = tonumber(string.match(holder, ' (%S+)$'))
        if since and (not oldest or since < oldest) then
            oldest = since
        end
    end
    return oldest
end

local now = clock()
settle(now)
local newest, oldest = newest_segment(), oldest_lease()
local counts = {
    redis.call('ZCARD', PLUS),
    redis.call('ZCARD', NORMAL),
    redis.call('ZCARD', MINUS),
    redis.call('ZCARD', DELAYED),
    redis.call('ZCARD', LEASES),
    redis.call('HLEN', FAILURES),
    newest and tonumber(redis.call('HGET', DONE, newest)) or 0,
    newest and tonumber(redis.call('HGET', ACCEPTED, newest)) or 0,
    redis.call('LLEN', DEAD),
}
return array(2) .. pack(counts, oldest and math.max(0, now - oldest) or nil)
