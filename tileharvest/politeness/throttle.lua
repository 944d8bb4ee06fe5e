-- The throttle of a fleet. KEYS[1] is the hash of a host. It holds `at:NAME`, the last start by a limit or the end
-- of a rest; and `share:WORKER`. ARGV[1] is MessagePack. Times are those of Redis' clock.
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
  local start, spacing, number = now, given.spacings[1] or 0, given.number
  local rest = at('rest')
  if rest <= now + given.longest then start = math.max(start, rest) end
  for place, name in ipairs(given.names) do
    local last, its_spacing = at(name), given.spacings[place]
    if last > now + given.set_back then
      last = now + given.set_back
      set(name, last)
    end
    start = math.max(start, last + its_spacing)
    if its_spacing ~= spacing then number = math.min(number, 1) end
    spacing = math.max(spacing, its_spacing)
  end
  if start > now + given.horizon or number < 1 then return {start - now, 0} end
  if spacing > 0 then number = math.min(number, 1 + math.floor((now + given.horizon - start) / spacing + 1e-6)) end
  for _, name in ipairs(given.names) do set(name, start + (number - 1) * spacing) end
  return {start - now, number}
end

function act.rest()
  set('rest', math.max(at('rest'), now + given.seconds))
  return {}
end

-- As `share` of throttle.py. Each worker's field has its share, and until when that lasts.
function act.share()
  local own_worker, own_map, own_places, is_own_busy, own_spent = unpack(given.own)
  local others, runs, fields = {}, false, redis.call('HGETALL', host)
  for place = 1, #fields, 2 do
    if string.sub(fields[place], 1, 6) == 'share:' then
      local share, ends = unpack(cmsgpack.unpack(fields[place + 1]))
      local worker, map, places, is_busy, spent = unpack(share)
      if ends <= now then places, is_busy = 0, false end
      runs = runs or (ends > now and map == own_map)
      if worker ~= own_worker then
        table.insert(others, {worker, map == own_map, places, is_busy, spent, fields[place]})
      end
    end
  end
  local requests, bytes, seconds = 0, 0, 0
  local of_map = {places = given.of_map, held = 0, workers = {own_worker}}
  local of_host = {places = given.of_host, held = 0, workers = {own_worker}}
  for _, other in ipairs(others) do
    local worker, is_mate, places, is_busy, spent, field = unpack(other)
    if is_mate and not runs then redis.call('HDEL', host, field) end
    if is_mate and runs then
      requests, bytes, seconds = requests + spent[1], bytes + spent[2], math.max(seconds, spent[3])
    end
    for _, group in ipairs(is_mate and {of_map, of_host} or {of_host}) do
      group.held = group.held + places
      if is_busy then table.insert(group.workers, worker) end
    end
  end
  local function part(group)
    table.sort(group.workers)
    local rank, workers = math.floor(now / given.turn), #group.workers
    for place, worker in ipairs(group.workers) do
      if worker == own_worker then rank = (rank + place - 1) % workers end
    end
    local most = math.floor(group.places / workers) + (rank < group.places % workers and 1 or 0)
    return math.min(most, group.places - group.held)
  end
  local number = is_own_busy and math.max(0, math.min(part(of_map), part(of_host))) or 0
  local own = {own_worker, own_map, math.max(own_places, number), is_own_busy, own_spent}
  redis.call('HSET', host, 'share:' .. own_worker, cmsgpack.pack({own, now + given.lasts}))
  return {number, requests, bytes, seconds}
end

function act.leave()
  local field = 'share:' .. given.worker
  local share = redis.call('HGET', host, field)
  if share then redis.call('HSET', host, field, cmsgpack.pack({cmsgpack.unpack(share)[1], 0})) end
  return {}
end

local answer = cmsgpack.pack(act[given.act]())
redis.call('EXPIRE', host, given.kept)
return answer
