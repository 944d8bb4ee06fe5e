-- Returns a remark of a segment, as a list of one or none. Then writes `value` in its place, or drops the remark if
-- `value` is empty.
--
-- segment, key, value or false

local field = 'note:' .. call.key
local before = redis.call('HGET', segment_key(call.segment), field)
if call.value == '' then
    redis.call('HDEL', segment_key(call.segment), field)
elseif call.value then
    redis.call('HSET', segment_key(call.segment), field, call.value)
    open_segment(call.segment)
end
return pack(before and { before } or {})
