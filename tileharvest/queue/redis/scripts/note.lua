-- Tells what a remark of a segment was, as a list of one or none. With `value` it is written, with an empty one
-- dropped.
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
