#!lua
-- Replaces requests by the same ones, sealed anew. Safe to repeat.
-- KEYS[1]  the account's prefix
-- ARGV     schedule, its packed request as the caller read it, the new one, …
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
for i = 1, #ARGV, 3 do
  local key, more = base .. K.SCHEDULE .. ARGV[i], #ARGV[i + 2] - #ARGV[i + 1]
  local stored = redis.call('HGET', key, 'r')
  local code = stored == ARGV[i + 2] and 1 or 0
  if stored == ARGV[i + 1] then
    if more ~= 0 and redis.call('ZSCORE', base .. K.HELD, ARGV[i]) then
      code = -1
    else
      redis.call('HSET', key, 'r', ARGV[i + 2])
      if more ~= 0 and counted then
        weigh(key, more)
      end
      code = 1
    end
  end
  codes[#codes + 1] = code
end
return codes
