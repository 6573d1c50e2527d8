#!lua
-- Replaces requests, and what targets said, by the same sealed anew. Safe to repeat.
-- KEYS[1]  the account's prefix
-- ARGV     schedule, its field, what that holds as the caller read it, the new one, …
-- Returns  for each: 1 replaced, 0 it was changed since or is gone, -1 it would weigh something else,
--          and a worker holds it that will say what it weighs
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
for i = 1, #ARGV, 4 do
  local key, field, old, new = base .. K.SCHEDULE .. ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local more = field == 'r' and #new - #old or answer_weight(#new) - answer_weight(#old)
  local stored = redis.call('HGET', key, field)
  local code = stored == new and 1 or 0
  if stored == old then
    if more ~= 0 and redis.call('ZSCORE', base .. K.HELD, ARGV[i]) then
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
