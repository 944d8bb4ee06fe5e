-- Lets leases last for the full time again, and says how many of them are held.
--
-- leases: id, attempt

local now = clock()
settle(now)
local ends = {}
for _, one in ipairs(held_of(call.leases)) do
    ends[#ends + 1] = now + call.lease_seconds
    ends[#ends + 1] = one.id
end
apply('ZADD', LEASES, ends)
heartbeat(now, 0)
return pack(#ends / 2)
