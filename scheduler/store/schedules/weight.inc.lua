-- What schedules weigh (bytes): the packed request, and what is kept beside it, roughly. Of an account
-- that is counted, for the quota of its plan, in the field `bytes`: of those that have not ended, and
-- of ended ones until the hour is over in which they are forgotten. They are forgotten by themselves,
-- so `expiring` has what each hour takes away, and the first create of an hour settles that. Needs
-- `now`.

--@include number
-- Of one, or of so many together.
local function weight_of(packed_bytes, count)
  return packed_bytes + 256 * (count or 1)
end

-- What a target said, sealed, weighs beyond what is kept beside any request. Between two attempts it is
-- shorter than that. It may lie in the outcome, which is never so long without.
local function answer_weight(said_bytes)
  return math.max(0, said_bytes - 512)
end

local function stored_weight(key)
  return weight_of(redis.call('HSTRLEN', key, 'r'))
    + answer_weight(redis.call('HSTRLEN', key, 's'))
    + answer_weight(redis.call('HSTRLEN', key, 'o'))
end

-- Notes that schedules of this weight are forgotten at that moment (ms).
local function note_expiring(base, bytes, at_ms)
  redis.call('HINCRBY', base .. K.EXPIRING, whole(math.floor(at_ms / 3600000)), whole(bytes))
end

-- Has a schedule that has ended forgotten at that moment (ms), if it is not earlier anyway.
local function forget_earlier(base, schedule, at_ms)
  local key = base .. K.SCHEDULE .. schedule
  local before_ms = redis.call('PEXPIRETIME', key)
  if before_ms > at_ms then
    local bytes = stored_weight(key)
    redis.call('PEXPIREAT', key, whole(at_ms))
    note_expiring(base, -bytes, before_ms)
    note_expiring(base, bytes, at_ms)
  end
end

-- The hours that are over, and what went with them.
local function expired(base)
  local hours, bytes, now_hour = {}, 0, math.floor(now_ms / 3600000)
  local expiring = redis.call('HGETALL', base .. K.EXPIRING)
  for i = 1, #expiring, 2 do
    if tonumber(expiring[i]) < now_hour then
      hours[#hours + 1] = expiring[i]
      bytes = bytes + expiring[i + 1]
    end
  end
  return hours, bytes
end

-- What an account's schedules weigh now, and the hours that `settle` has to forget, if any are over.
-- stored: the fields `bytes` and `settled`, the hour in which that was done last.
local function stored_bytes(base, stored, settled)
  local bytes = tonumber(stored or '0')
  if tonumber(settled or '-1') == math.floor(now_ms / 3600000) then
    return bytes, nil
  end
  local hours, gone = expired(base)
  return bytes - gone, hours
end

local function settle(base, hours)
  if #hours > 0 then
    redis.call('HDEL', base .. K.EXPIRING, unpack(hours))
  end
  redis.call('HSET', base .. K.ACCOUNT, 'settled', math.floor(now_ms / 3600000))
end
