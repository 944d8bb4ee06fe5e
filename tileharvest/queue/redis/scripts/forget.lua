-- Drops everything of some segments but failures.
--
-- segments: their names

local function forget()
    drop_segments()
    local answer = pack(true)
    remember(answer)
    return answer
end

return recall() or forget()
