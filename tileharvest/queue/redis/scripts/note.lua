-- What a remark of a segment was; with `value` it is written, with an empty one dropped.
--
-- segment, key, value or false

local field = #call.segment .. ':' .. call.segment .. call.key

local function note()
    local before = redis.call('HGET', REMARKS, field)
    local answer = before and array(1) .. bytes(before) or array(0)
    if call.value == '' then
        redis.call('HDEL', REMARKS, field)
    elseif call.value then
        open_segment(call.segment)
        redis.call('HSET', REMARKS, field, call.value)
    end
    if call.value then
        remember(answer)
    end
    return answer
end

return call.value and recall() or note()
