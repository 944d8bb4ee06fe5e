-- The throttle of a fleet. KEYS[1] is the hash of a host. It holds `at:NAME`, the last start by a limit or the end
-- of a rest; `share:WORKER`; and `spent:PART:MAP`. ARGV[1] is MessagePack. Times are those of Redis' clock.
local given = cmsgpack.unpack(ARGV[1])
local host = KEYS[1]
local now = given.now
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1e6
end

local function at(name)
  return tonumber(redis.call('HGET', host, 'at:' .. name) or -math.huge)
end

local function set(name, moment)
  -- %.6f: Redis would write fewer digits.
  redis.call('HSET', host, 'at:' .. name, string.format('%.6f', moment))
end

local act = {}

-- As `reserve` of throttle.py. Returns the seconds until the first start, and the number of starts.
function act.reserve()
  local start, spacing, is_even = now, 0, true
  local rest = at('rest')
  if rest <= now + given.longest then start = math.max(start, rest) end
  for place, limit in ipairs(given.limits) do
    local name, its_spacing = unpack(limit)
    local last = at(name)
    if last > now + given.set_back then
      last = now + given.set_back
      set(name, last)
    end
    start = math.max(start, last + its_spacing)
    is_even = is_even and (place == 1 or its_spacing == spacing)
    spacing = math.max(spacing, its_spacing)
  end
  if start > now + given.horizon or given.number < 1 then return {start - now, 0} end
  local number = given.number
  if spacing > 0 then
    number = is_even and math.min(number, 1 + math.floor((now + given.horizon - start) / spacing + 1e-6)) or 1
  end
  for _, limit in ipairs(given.limits) do set(limit[1], start + (number - 1) * spacing) end
  return {start - now, number}
end

function act.rest()
  set('rest', math.max(at('rest'), now + given.seconds))
  return {}
end

-- As `share` of throttle.py.
function act.share()
  local is_known, of_map, of_host = false, {workers = {given.worker}, held = 0}, {workers = {given.worker}, held = 0}
  local fields = redis.call('HGETALL', host)
  for place = 1, #fields, 2 do
    local worker = string.match(fields[place], '^share:(.*)$')
    if worker then
      local map, places, is_busy, ends = unpack(cmsgpack.unpack(fields[place + 1]))
      if ends <= now then
        redis.call('HDEL', host, fields[place])
      else
        is_known = is_known or map == given.map
        for _, group in ipairs(map == given.map and {of_map, of_host} or {of_host}) do
          if worker ~= given.worker then
            group.held = group.held + places
            if is_busy then table.insert(group.workers, worker) end
          end
        end
      end
    end
  end
  if not is_known then
    for _, part in ipairs({'requests', 'bytes', 'seconds'}) do
      redis.call('HDEL', host, 'spent:' .. part .. ':' .. given.map)
    end
  end
  local function part(group, places)
    table.sort(group.workers)
    local rank, workers = math.floor(now / given.turn), #group.workers
    for place, worker in ipairs(group.workers) do
      if worker == given.worker then rank = (rank + place - 1) % workers end
    end
    local most = math.floor(places / workers) + (rank < places % workers and 1 or 0)
    return math.min(most, places - group.held)
  end
  local number = 0
  if given.is_busy then number = math.max(0, math.min(part(of_map, given.of_map), part(of_host, given.of_host))) end
  local own = {given.map, math.max(given.places, number), given.is_busy, now + given.lasts}
  redis.call('HSET', host, 'share:' .. given.worker, cmsgpack.pack(own))
  return number
end

function act.spend()
  local seconds = 'spent:seconds:' .. given.map
  local most = math.max(tonumber(redis.call('HGET', host, seconds) or 0), given.seconds)
  redis.call('HSET', host, seconds, string.format('%.6f', most))
  return {
    redis.call('HINCRBY', host, 'spent:requests:' .. given.map, given.requests),
    redis.call('HINCRBY', host, 'spent:bytes:' .. given.map, given.bytes),
    most,
  }
end

local answer = cmsgpack.pack(act[given.act]())
redis.call('EXPIRE', host, given.kept)
return answer
