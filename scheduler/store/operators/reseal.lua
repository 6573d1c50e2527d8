#!lua
-- Replaces requests, and what targets answered, by the same sealed anew. Safe to repeat.
-- KEYS[1]  the account's prefix
-- ARGV     key of a schedule or of a recurring one, below that prefix, its field, what that holds
--          as the caller read it, the new one, …
-- Returns  for each: 1 replaced, 0 changed since or gone; its weight would change, and -1 a worker
--          holds it, which counts that, or -2 a key for that is damaged
--@include shared/now
--@include lifecycle/row/weight
local base, codes = KEYS[1], {}
local account = base .. K.ACCOUNT
-- Of an account that is being deleted nothing is counted any more.
local counted = redis.call('EXISTS', account) == 1

-- The sums to write when what has this key weighs `more`: the account's, that of the hour in which
-- it is forgotten, and the version of a recurring one, because its changes count by what they read.
-- Nil if a worker holds it; raises if a sum is damaged.
local function weighed(key, more)
  if more == 0 then
    return {}
  elseif redis.call('ZSCORE', base .. K.HELD, string.sub(key, -26)) then
    return nil
  elseif not counted then
    return {}
  end
  local at_ms, hours = redis.call('PEXPIRETIME', key), {}
  local sums = {added(account, {'bytes'}, {more})}
  if string.sub(key, #base + 1, #base + #K.RULE) == K.RULE then
    sums[2] = added(key, {'v'}, {1})
  elseif at_ms > 0 then
    note_expiring(hours, more, at_ms)
    sums[2] = read_expiring(base, hours)
  end
  return sums
end

for i = 1, #ARGV, 4 do
  local key, field, old, new = base .. ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local more = field == 's' and answer_weight(#new) - answer_weight(#old) or #new - #old
  local stored = redis.pcall('HGET', key, field)
  local code = stored == new and 1 or 0
  if stored == old then
    local sound, sums = pcall(weighed, key, more)
    code = not sound and -2 or not sums and -1 or 1
    if code == 1 then
      redis.call('HSET', key, field, new)
      for _, sum in ipairs(sums) do
        write(sum)
      end
    end
  end
  codes[#codes + 1] = code
end
return codes
