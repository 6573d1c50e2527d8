-- Whether the store could record the ends of an account's schedules. Needs `now`.

--@include log/append
-- More than any number gains in one call.
local ROOM = 2 ^ 40

-- Raises unless every number of the hash has room to grow.
local function check_numbers(key)
  for _, value in ipairs(redis.call('HVALS', key)) do
    plus(value, ROOM)
  end
end

-- Raises unless `end` could record anything of the account now; a claim reads the other keys.
local function check_recordable(base)
  local at = read_log(base, ROOM, '', {ROOM, ROOM, ROOM}).at
  check_numbers(base .. K.EXPIRING)
  check_numbers(base .. K.MINUTE .. math.floor(at / 60000))
  check_numbers(base .. K.HOUR .. math.floor(at / 3600000))
  check_numbers(base .. K.DAY .. math.floor(at / 86400000))
  plus(redis.call('HGET', base .. K.ACCOUNT, 'bytes'), ROOM)
  redis.call('ZCARD', base .. K.FAILED)
end
