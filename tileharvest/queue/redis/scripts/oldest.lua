-- A list: for how many seconds the oldest lease has been held; empty if there is none.

local now = clock()
settle(now)
local oldest
local holders = redis.call('HGETALL', HOLDERS)
for place = 2, #holders, 2 do
    local since = tonumber(string.match(holders[place], ' (%S+)$'))
    if since and (not oldest or since < oldest) then
        oldest = since
    end
end
return pack({ oldest and math.max(0, now - oldest) })
