-- Keeps a value that workers share, if nobody has changed it since it was read. Stands alone.
--
-- KEYS: the value.
-- ARGV: the value that was read; the new value, which may be the same; the seconds for which to keep it; the present
-- time as the caller believes, or an empty text if that does not matter; the seconds by which that time may be wrong.
-- The answer: whether the new value is kept, or was kept when this call was made before; the present value; Redis'
-- time.

local time = redis.call('TIME')
local found = redis.call('GET', KEYS[1]) or ''
local wrong = ARGV[4] == '' and 0 or math.abs(time[1] + time[2] / 1e6 - tonumber(ARGV[4]))
local is_same = ARGV[1] == ARGV[2]
local is_kept = found == ARGV[2] and not is_same
if found == ARGV[1] and wrong <= tonumber(ARGV[5]) then
    if not is_same then
        redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
    end
    is_kept, found = true, ARGV[2]
end
return { is_kept and 1 or 0, found, time[1], time[2] }
