-- Lets leases last for the full time from now, and returns how many of them are still held.
--
-- leases: id, attempt

settle()
local extended = 0
for _, lease in ipairs(call.leases) do
    local id = held(lease)
    if id then
        redis.call('ZADD', LEASES, now + call.lease_seconds, id)
        extended = extended + 1
    end
end
heartbeat()
return pack(extended)
