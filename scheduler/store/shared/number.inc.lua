-- Numbers as the store keeps them: whole, and no larger than 2^53, up to which Lua counts exactly.

-- A whole number in digits, for a command: Redis 7.0 writes a negated zero as -0, which no counter
-- accepts, and Lua's own text of a number has 14 digits.
local function whole(value)
  return string.format('%.0f', value + 0)
end

-- A stored number; 0 if there is none. Raises DAMAGED for anything else.
local function number(stored)
  local n = tonumber(stored or 0)
  if not n or n % 1 ~= 0 or math.abs(n) > 2 ^ 53 then
    error('DAMAGED A number is none, or too large', 0)
  end
  return n
end

-- The sum of a stored number and a gain, which may be negative. Raises DAMAGED if it is too large.
local function plus(stored, gain)
  local sum = (tonumber(stored or 0) or math.huge) + gain
  if sum > -2 ^ 53 and sum < 2 ^ 53 and sum % 1 == 0 then
    return sum + 0
  end
  local n = number(stored)
  if sum - n ~= tonumber(gain) then
    error('DAMAGED A number is too large', 0)
  end
  return number(sum)
end

-- Adds to numbers of a hash in two steps: `added` reads and checks before a script's first write,
-- `write` cannot fail.
-- Returns {key, flat: fields and their sums, whether one of the fields is new}.
local function added(key, fields, gains)
  local stored, sums, new = redis.call('HMGET', key, unpack(fields)), {}, false
  for i, field in ipairs(fields) do
    local before = stored[i]
    sums[2 * i - 1], sums[2 * i] = field, before and plus(before, gains[i]) or gains[i] + 0
    new = new or not before
  end
  return {key, sums, new}
end

-- kept_ms, if given: how long the hash is kept from the first use of any of the fields.
local function write(sum, kept_ms)
  redis.call('HSET', sum[1], unpack(sum[2]))
  if kept_ms and sum[3] then
    redis.call('PEXPIRE', sum[1], kept_ms)
  end
end
