-- What a remark of a segment was; with `value` it is written.
--
-- segment, key, value or false

local field = #call.segment .. ':' .. call.segment .. call.key

local function note()
    local before = redis.call('HGET', REMARKS, field)
    local answer = before and array(1) .. bytes(before) or array(0)
    if call.value then
        open_segment(call.segment)
        redis.call('HSET', REMARKS, field, call.value)
        remember(answer)
    end
    return answer
end

return call.value and recall() or note()
