-- For how long the run of the map has been worked for, as far as any of its workers knows; and a word, whether
-- that is all that may be spent.
--
-- worked: seconds, as far as this worker knows

local known = redis.call('HMGET', PURSE, 'is_open', 'worked', 'seconds')
if not known[1] then
    return pack({ 'lost', 0 })
end
local worked = math.max(tonumber(known[2]) or 0, call.worked)
redis.call('HSET', PURSE, 'worked', worked)
return pack({ worked < (tonumber(known[3]) or math.huge) and 'granted' or 'refused', worked })
