-- How much is where.

settle((clock()))
local newest = newest_segment()
return pack({
    redis.call('ZCARD', PLUS),
    redis.call('ZCARD', NORMAL),
    redis.call('ZCARD', MINUS),
    redis.call('ZCARD', DELAYED),
    redis.call('ZCARD', LEASES),
    redis.call('HLEN', FAILURES),
    newest and tonumber(redis.call('HGET', DONE, newest)) or 0,
    newest and tonumber(redis.call('HGET', ACCEPTED, newest)) or 0,
})
