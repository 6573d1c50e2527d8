-- Parked accounts: a key is damaged to which the end of a schedule or an attempt is written. A worker
-- would fire their schedules, fail to record it, and fire them again after each lease; so claims pass
-- these accounts over until the store can record again. Needs `now`.

--@include log/append

local function park(prefix, account)
  -- If `parked` itself is damaged, the schedules wait for the end of their leases only.
  redis.pcall('ZADD', prefix .. K.PARKED, now_ms, account)
end

-- More than any number gains in one call.
local ROOM = 2 ^ 40

-- Raises unless every number of the hash has room to grow.
local function check_numbers(key)
  for _, value in ipairs(redis.call('HVALS', key)) do
    plus(value, ROOM)
  end
end

-- Raises unless `ack` and `retry` could record anything of the account now. A claim reads the other
-- keys itself.
local function check_recordable(base)
  local places = {'completed', '', 'failed', '', 'retrying', ''}
  for bucket = 0, 255 do
    places[#places + 1], places[#places + 2] = string.format('%02x', bucket), ''
  end
  local at = read_log(base, places, ROOM, '').at
  check_numbers(base .. K.EXPIRING)
  check_numbers(base .. K.MINUTE .. math.floor(at / 60000))
  check_numbers(base .. K.HOUR .. math.floor(at / 3600000))
  check_numbers(base .. K.DAY .. math.floor(at / 86400000))
  plus(redis.call('HGET', base .. K.ACCOUNT, 'bytes'), ROOM)
  redis.call('ZCARD', base .. K.FAILED)
end
