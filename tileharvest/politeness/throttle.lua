-- The throttle of a fleet: the rules of `HostState` in throttle.py. KEYS[1] is the hash of a host. It holds `at:NAME`,
-- the last start by a limit or the end of a rest, and `share:WORKER`, a share and until when it lasts. ARGV[1] is
-- MessagePack. Times are those of Redis' clock.
local rules = cmsgpack.unpack(ARGV[1])
local host, now = KEYS[1], rules.now
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

function act.reserve(number, limits, horizon)
  local rest, start, spacing, is_even = at('rest'), now, nil, true
  if rest <= now + rules.longest then start = math.max(start, rest) end
  for name, its_spacing in pairs(limits) do
    local last = at(name)
    if last > now + rules.set_back then
      last = now + rules.set_back
      set(name, last)
    end
    start = math.max(start, last + its_spacing)
    is_even = is_even and (spacing or its_spacing) == its_spacing
    spacing = math.max(spacing or 0, its_spacing)
  end
  if start > now + horizon or number < 1 then return {start - now, 0} end
  if not is_even then
    number = 1
  elseif spacing and spacing > 0 then
    number = math.min(number, 1 + math.floor((now + horizon - start) / spacing + 1e-6))
  end
  for name in pairs(limits) do set(name, start + (number - 1) * spacing) end
  return {start - now, number}
end

function act.rest(seconds)
  set('rest', math.max(at('rest'), now + seconds))
end

function act.share(own, of_map, of_host, lasts)
  local own_worker, own_map, own_places, is_own_busy = unpack(own)
  local others, running, fields = {}, {}, redis.call('HGETALL', host)
  for place = 1, #fields, 2 do
    if string.sub(fields[place], 1, 6) == 'share:' then
      local share, ends = unpack(cmsgpack.unpack(fields[place + 1]))
      local worker, map, places, is_busy, spent = unpack(share)
      if ends > now then running[map] = true else places, is_busy = 0, false end
      if worker ~= own_worker then table.insert(others, {worker, map, places, is_busy, spent, fields[place]}) end
    end
  end
  local requests, bytes, seconds = 0, 0, 0
  local in_map = {places = of_map, held = 0, workers = {own_worker}}
  local in_host = {places = of_host, held = 0, workers = {own_worker}}
  for _, other in ipairs(others) do
    local worker, map, places, is_busy, spent, field = unpack(other)
    if not running[map] then
      redis.call('HDEL', host, field)
    elseif map == own_map then
      requests, bytes, seconds = requests + spent[1], bytes + spent[2], math.max(seconds, spent[3])
    end
    for _, group in ipairs(map == own_map and {in_map, in_host} or {in_host}) do
      group.held = group.held + places
      if is_busy then table.insert(group.workers, worker) end
    end
  end
  local function part(group)
    table.sort(group.workers)
    local rank, workers = math.floor(now / rules.turn), #group.workers
    for place, worker in ipairs(group.workers) do
      if worker == own_worker then rank = (rank + place - 1) % workers end
    end
    local most = math.floor(group.places / workers) + (rank < group.places % workers and 1 or 0)
    return math.min(most, group.places - group.held)
  end
  local number = is_own_busy and math.max(0, math.min(part(in_map), part(in_host))) or 0
  own[3] = math.max(own_places, number)
  redis.call('HSET', host, 'share:' .. own_worker, cmsgpack.pack({own, now + lasts}))
  return {number, {requests, bytes, seconds}}
end

function act.leave(worker)
  local field = 'share:' .. worker
  local share = redis.call('HGET', host, field)
  if share then redis.call('HSET', host, field, cmsgpack.pack({cmsgpack.unpack(share)[1], 0})) end
end

local answer = cmsgpack.pack(act[rules.act](unpack(rules.given)) or {})
redis.call('EXPIRE', host, rules.kept)
return answer
