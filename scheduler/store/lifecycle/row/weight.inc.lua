-- The weight of schedules (bytes): the packed request, and roughly the data beside it. The
-- field `bytes` of an account sums it for its quota, of ended schedules until the hour is over in
-- which they are forgotten. They expire by themselves, so `expiring` has the weight of each such
-- hour, and the first create after it settles that. Needs `now`.

--@include shared/members
--@include shared/number
-- Of one, or of so many together.
local function weight_of(packed_bytes, count)
  return packed_bytes + 256 * (count or 1)
end

-- A sealed answer weighs what it has beyond 512 bytes. Between two attempts it is shorter.
local function answer_weight(said_bytes)
  return math.max(0, said_bytes - 512)
end

-- The attempts of a callback weigh what they have beyond 128 bytes, by the length of field `c`.
local function callback_weight(state_bytes)
  return math.max(0, state_bytes - 128)
end

-- What the reference of a dead letter weighs, by its member of `failed`.
local function letter_weight(member)
  return #member > 26 and S.REFERENCE_BYTES + #member or 0
end

-- What a call weighs that is noted with its Idempotency-Key, by the bytes of that note.
local function note_weight(value_bytes)
  return S.NOTE_BYTES + value_bytes
end

-- Raises if the key is of a wrong type. An answer that is kept for a callback weighs all it has.
local function stored_weight(key)
  local bytes = weight_of(redis.call('HSTRLEN', key, 'r'))
    + answer_weight(redis.call('HSTRLEN', key, 's'))
  local state_bytes = redis.call('HSTRLEN', key, 'c')
  if state_bytes == 0 then
    return bytes
  end
  return bytes + callback_weight(state_bytes) + redis.call('HSTRLEN', key, 'w')
end

-- Notes in `hours` that schedules of this weight are forgotten at that moment (ms).
local function note_expiring(hours, bytes, at_ms)
  local hour = whole(math.floor(at_ms / 3600000))
  hours[hour] = (hours[hour] or 0) + bytes
end

-- The sums of `expiring` with what `hours` notes, for `write`.
local function read_expiring(base, hours)
  local names, gains = {}, {}
  for hour, bytes in pairs(hours) do
    names[#names + 1], gains[#gains + 1] = hour, bytes
  end
  return added(base .. K.EXPIRING, names, gains)
end

-- Whether an ended schedule is to be forgotten later than that moment (ms); `hours` then gets the
-- difference, `beside` of it for its reference. A key of a wrong type stays as it is.
local function forgotten_later(key, at_ms, hours, beside)
  local before_ms = redis.call('PEXPIRETIME', key)
  if before_ms <= at_ms then
    return false
  end
  local sound, bytes = pcall(stored_weight, key)
  if sound then
    bytes = bytes + beside
    note_expiring(hours, -bytes, before_ms)
    note_expiring(hours, bytes, at_ms)
  end
  return sound
end

-- The weight of an account's schedules now, and the hours that `settle` has to forget, if any.
-- stored: the fields `bytes` and `settled`, the hour in which that was done last.
local function stored_bytes(base, stored, settled)
  local bytes, now_hour = number(stored), math.floor(now_ms / 3600000)
  if number(settled or -1) == now_hour then
    return bytes, nil
  end
  local hours, expiring = {}, redis.call('HGETALL', base .. K.EXPIRING)
  for i = 1, #expiring, 2 do
    if number(expiring[i]) < now_hour then
      hours[#hours + 1] = expiring[i]
      bytes = plus(bytes, -number(expiring[i + 1]))
    end
  end
  return bytes, hours
end

local function settle(base, hours)
  each_thousand('HDEL', base .. K.EXPIRING, hours)
  redis.call('HSET', base .. K.ACCOUNT, 'settled', math.floor(now_ms / 3600000))
end
