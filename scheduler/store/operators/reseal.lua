#!lua
-- Replaces requests, and what targets said, by the same sealed anew. Safe to repeat.
-- KEYS[1]  the account's prefix
-- ARGV     schedule, its field, what that holds as the caller read it, the new one, …
-- Returns  for each: 1 replaced, 0 it was changed since or is gone, -1 it would weigh something else,
--          and a worker holds it that will say what it weighs, -2 it would, and the account's weight or
--          a set of it cannot be read
--@include now
--@include schedules/weight
local base, codes = KEYS[1], {}
local account = base .. K.ACCOUNT

-- The quota counts it with its new weight, and so does the hour in which it is forgotten.
local function weigh(key, more)
  redis.call('HINCRBY', account, 'bytes', more)
  local at_ms = redis.call('PEXPIRETIME', key)
  if at_ms > 0 then
    note_expiring(base, more, at_ms)
  end
end

-- Of an account that is being deleted nothing is counted any more.
local counted = redis.call('EXISTS', account) == 1

-- Whether all that `weigh` reads and writes is of its kind; no later command can fail then.
local function is_sound()
  local bytes = redis.pcall('HGET', account, 'bytes')
  if type(bytes) == 'table' or bytes and not string.match(bytes, '^%-?%d+$') then
    return false
  end
  local hours = redis.pcall('HVALS', base .. K.EXPIRING)
  for _, hour in ipairs(hours) do
    if not string.match(hour, '^%-?%d+$') then
      return false
    end
  end
  local held = redis.pcall('ZSCORE', base .. K.HELD, '')
  return not (hours.err or type(held) == 'table' and held.err)
end
local sound = is_sound()

for i = 1, #ARGV, 4 do
  local key, field, old, new = base .. K.SCHEDULE .. ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local more = field == 'r' and #new - #old or answer_weight(#new) - answer_weight(#old)
  local stored = redis.pcall('HGET', key, field)
  local code = stored == new and 1 or 0
  if stored == old then
    if more ~= 0 and not sound then
      code = -2
    elseif more ~= 0 and redis.call('ZSCORE', base .. K.HELD, ARGV[i]) then
      code = -1
    else
      redis.call('HSET', key, field, new)
      if more ~= 0 and counted then
        weigh(key, more)
      end
      code = 1
    end
  end
  codes[#codes + 1] = code
end
return codes
