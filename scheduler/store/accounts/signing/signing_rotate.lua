#!lua
-- Puts a new signing secret before an account's others, shortens their time and drops ended ones.
-- Safe to repeat for as long as the once-key is kept: a day, or until MOST_NOTED others came. Its note
-- has no verdict, and weighs nothing in the quota: a rotation is never refused for room.
-- KEYS[1]  the account's prefix
-- ARGV     once-key, digest of the request (16 bytes), how long these are kept (ms), id and stored
--          form of the new secret, how long the others stay (ms), most in all, who
--          rotates
-- Returns  {code, the secrets then, the newest first}; 1 done, 2 done before, 0 no such account, -1
--          there would be too many, -2 the once-key came with another request
--@include shared/now
--@include shared/number
--@include events/note
--@include accounts/signing/signing
local MOST_NOTED = 1000
local base, key, once = KEYS[1], KEYS[1] .. K.SIGNING, KEYS[1] .. K.ONCE .. ARGV[1]
local noted = base .. K.ROTATIONS
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return {0, {}}
end
local before, known = redis.call('LRANGE', key, 0, -1), redis.call('GET', once)
if known then
  return {string.sub(known, 1, 16) == ARGV[2] and 2 or -2, before}
end
local after, most_ms = {secret_entry(ARGV[4], now_ms, 0, ARGV[5])}, now_ms + tonumber(ARGV[6])
local doors = {}
for _, entry in ipairs(before) do
  local id, created, until_ms, secret = string.match(entry, '^(%S+) (%d+) (%d+) (.*)$')
  created, until_ms = number(created or 'none'), number(until_ms)
  until_ms = until_ms == 0 and most_ms or math.min(until_ms, most_ms)
  if is_of_door(entry) then
    doors[#doors + 1] = entry
  elseif until_ms > now_ms then
    after[#after + 1] = secret_entry(id, created, until_ms, secret)
  end
end
if #after > tonumber(ARGV[7]) then
  return {-1, before}
end
local forgotten = {}
for _, name in ipairs(redis.call('LRANGE', noted, MOST_NOTED - 1, -1)) do
  -- After a day another call may have used the same key.
  if redis.call('STRLEN', base .. K.ONCE .. name) == #ARGV[2] + 2 then
    forgotten[#forgotten + 1] = base .. K.ONCE .. name
  end
end
redis.call('DEL', key)
redis.call('RPUSH', key, unpack(after))
for _, entry in ipairs(doors) do
  redis.call('RPUSH', key, entry)
end
redis.call('SET', once, ARGV[2] .. '\0\0', 'PX', ARGV[3])
for _, noted_key in ipairs(forgotten) do
  redis.call('DEL', noted_key)
end
redis.call('LPUSH', noted, ARGV[1])
redis.call('LTRIM', noted, 0, MOST_NOTED - 1)
redis.call('PEXPIRE', noted, ARGV[3])
note_own(base, {k = 'secrets-rotated', w = ARGV[8]})
return {1, after}
