-- Drops everything of some segments but failures.
--
-- segments: their names
-- listing: all segments as the caller believes them to be, oldest first, or false if it does not matter;
-- where there are others by now nothing is done, and false is the answer

local function is_as_listed()
    local present = redis.call('ZRANGE', SEGMENTS, 0, -1)
    if #present ~= #call.listing then
        return false
    end
    for number, name in ipairs(present) do
        if name ~= call.listing[number] then
            return false
        end
    end
    return true
end

local function forget()
    drop_segments()
    local answer = pack(true)
    remember(answer)
    return answer
end

local answer = recall()
if answer then
    return answer
end
if call.listing and not is_as_listed() then
    return pack(false)
end
return forget()
