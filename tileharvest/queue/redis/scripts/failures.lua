-- The failure list, oldest first.

local function failure_of(record)
    local fine, priority, attempts, segment, body, reason, failed = pcall(cmsgpack.unpack, record)
    fine = fine and is_whole(priority) and is_whole(attempts) and type(failed) == 'number'
    if fine and type(segment) == 'string' and type(body) == 'string' and type(reason) == 'string' then
        local head = pack(priority, attempts, failed)
        return array(7) .. head .. bytes(segment) .. bytes(body) .. bytes(reason)
    end
    return nil
end

local found = redis.call('HGETALL', FAILURES)
local lines, ids = {}, {}
for place = 1, #found, 2 do
    local id, record = found[place], found[place + 1]
    local line = tonumber(id) and failure_of(record)
    if line then
        ids[#ids + 1] = id
        lines[id] = line
    else
        redis.call('HDEL', FAILURES, id)
        bury(id, record, 'unreadable failure')
    end
end
table.sort(ids)
local answer = {}
for number, id in ipairs(ids) do
    answer[number] = lines[id] .. pack(tonumber(id))
end
return array(#answer) .. table.concat(answer)
