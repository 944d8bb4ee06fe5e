-- Writes a remark of a segment, or drops the remark if `value` is empty.
--
-- segment, key, value

local field = 'note:' .. call.key
if call.value == '' then
    redis.call('HDEL', segment_key(call.segment), field)
else
    redis.call('HSET', segment_key(call.segment), field, call.value)
    open_segment(call.segment)
end
return pack(true)
