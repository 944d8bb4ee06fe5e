-- The throttle of a fleet. KEYS[1] is the hash of a host. It holds `at:NAME`, the last start by a limit or the end
-- of a rest; `share:WORKER`; and `spent:PART:MAP`. ARGV[1] is MessagePack.
local given = cmsgpack.unpack(ARGV[1])
local host = KEYS[1]
local now = given.now
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1e6
end

local function at(name)
  return tonumber(redis.call('HGET', host, 'at:' .. name) or nil)
end

local function set(name, moment)
  -- %.6f: Redis would write fewer digits.
  redis.call('HSET', host, 'at:' .. name, string.format('%.6f', moment))
end

local act = {}

-- As `reserve` of throttle.py. Returns the first start, the number of starts, and the time.
function act.reserve()
  local start, spacing, is_even = now, 0, true
  local rest = at('rest')
  if rest and rest <= now + given.longest then start = math.max(start, rest) end
  for place, limit in ipairs(given.limits) do
    local name, its_spacing = unpack(limit)
    local last = at(name)
    if last and last > now + given.set_back then
      last = now
      set(name, now)
    end
    if last then start = math.max(start, last + its_spacing) end
    is_even = is_even and (place == 1 or its_spacing == spacing)
    spacing = math.max(spacing, its_spacing)
  end
  if start > now + given.horizon or given.number < 1 then return {start, 0, now} end
  local number = given.number
  if spacing > 0 then
    number = is_even and math.min(number, 1 + math.floor((now + given.horizon - start) / spacing + 1e-6)) or 1
  end
  for _, limit in ipairs(given.limits) do set(limit[1], start + (number - 1) * spacing) end
  return {start, number, now}
end

function act.rest()
  set('rest', math.max(at('rest') or now, now + given.seconds))
  return {}
end

-- As `share` of throttle.py, but the fair share is given. Returns the share, and the shares of the others.
function act.share()
  local fields = redis.call('HGETALL', host)
  local others, mates, all, is_known = {}, 0, 0, false
  for place = 1, #fields, 2 do
    local worker = string.match(fields[place], '^share:(.*)$')
    if worker then
      local map, places, wanted, ends = unpack(cmsgpack.unpack(fields[place + 1]))
      if ends <= now then
        redis.call('HDEL', host, fields[place])
      else
        is_known = is_known or map == given.map
        if worker ~= given.worker then
          if map == given.map then mates = mates + places end
          all = all + places
          others[#others + 1] = {worker, map, places, wanted}
        end
      end
    end
  end
  if not is_known then
    for _, part in ipairs({'requests', 'bytes', 'seconds'}) do
      redis.call('HDEL', host, 'spent:' .. part .. ':' .. given.map)
    end
  end
  local number = math.min(given.fair, given.of_map - mates)
  if given.of_host > 0 then number = math.min(number, given.of_host - all) end
  number = math.max(0, number)
  local own = {given.map, math.max(given.places, number), given.wanted, now + given.lasts}
  redis.call('HSET', host, 'share:' .. given.worker, cmsgpack.pack(own))
  return {number, others}
end

function act.leave()
  redis.call('HDEL', host, 'share:' .. given.worker)
  return {}
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
