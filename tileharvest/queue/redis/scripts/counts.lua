-- Returns the counts, and the seconds for which the oldest lease has been held, or -1 if nothing is leased.

settle()
local oldest
for _, holder in ipairs(redis.call('HVALS', HOLDERS)) do
    local since = tonumber(string.match(holder, ' (%S+)$'))
    oldest = math.min(oldest or since, since)
end
local newest = newest_segment()
local known = newest and redis.call('HMGET', segment_key(newest), 'done', 'accepted') or {}
local counts = {
    redis.call('ZCARD', PLUS),
    redis.call('ZCARD', NORMAL),
    redis.call('ZCARD', MINUS),
    redis.call('ZCARD', DELAYED),
    redis.call('ZCARD', LEASES),
    redis.call('HLEN', FAILURES),
    tonumber(known[1] or 0),
    tonumber(known[2] or 0),
    redis.call('LLEN', DEAD),
}
return pack({ counts, oldest and math.max(0, now - oldest) or -1 })
