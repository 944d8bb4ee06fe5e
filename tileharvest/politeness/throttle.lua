-- The throttle of a fleet: the rules of `HostState` in throttle.py. KEYS[1] is the state of a host, and ARGV[1] what to do,
-- both as MessagePack. Times are those of Redis' clock.
local call = cmsgpack.unpack(ARGV[1])
local kept = redis.call('GET', KEYS[1])
local state = kept and cmsgpack.unpack(kept) or {times = {}, shares = {}}
local times, shares = state.times, state.shares
local now = call.now
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1e6
end

local act = {}

function act.reserve(limits, horizon)
  local rest, start = times.rest or now, now
  if rest <= now + call.longest then start = math.max(now, rest) end
  for name, spacing in pairs(limits) do
    times[name] = math.min(times[name] or -math.huge, now + call.set_back)
    start = math.max(start, times[name] + spacing)
  end
  local is_granted = start <= now + horizon
  if is_granted then
    for name in pairs(limits) do times[name] = start end
  end
  return {start - now, is_granted}
end

function act.rest(seconds)
  times.rest = math.max(times.rest or now, now + seconds)
end

local function part(own, places, beside)
  local names, held = {own.worker}, 0
  for _, one in ipairs(beside) do
    held = held + one.places
    if one.is_busy then table.insert(names, one.worker) end
  end
  table.sort(names)
  local rank = math.floor(now / call.turn)
  for place, name in ipairs(names) do
    if name == own.worker then rank = (rank + place - 1) % #names end
  end
  return math.min(math.floor((places + #names - 1 - rank) / #names), places - held)
end

function act.share(own, of_map, of_host, lasts)
  local running, alive, mates = {}, {}, {}
  for _, one in pairs(shares) do
    if one.ends > now then running[one.map] = true end
  end
  local spent = {0, 0, 0}
  for worker, one in pairs(shares) do
    if not running[one.map] then
      shares[worker] = nil
    elseif worker ~= own.worker then
      if one.ends > now then table.insert(alive, one) end
      if one.map == own.map then
        if one.ends > now then table.insert(mates, one) end
        spent = {spent[1] + one.spent[1], spent[2] + one.spent[2], math.max(spent[3], one.spent[3])}
      end
    end
  end
  local number = own.is_busy and math.max(0, math.min(part(own, of_map, mates), part(own, of_host, alive))) or 0
  own.places, own.ends = math.max(own.places, number), now + lasts
  shares[own.worker] = own
  return {number, spent}
end

function act.leave(worker)
  if shares[worker] then shares[worker].ends = -math.huge end
end

local answer = act[call.act](unpack(call.given)) or {}
redis.call('SET', KEYS[1], cmsgpack.pack(state), 'EX', call.kept)
return cmsgpack.pack(answer)
