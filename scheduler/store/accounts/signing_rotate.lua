#!lua
-- Puts a new signing secret before an account's others, which stay for so long and no longer; those
-- whose time is over go. Safe to repeat with the same operation for a day.
-- KEYS[1]  the account's prefix
-- ARGV     operation, the new secret's id, that secret as it is stored, how long the others stay
--          (ms), how many there may be in all
-- Returns  {1 done now, 2 done before, 0 no such account, -1 there would be too many,
--          the secrets as they then are, the newest first}
--@include now
--@include operation
--@include accounts/signing
local base, key = KEYS[1], KEYS[1] .. K.SIGNING
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return {0, {}}
end
local before = redis.call('LRANGE', key, 0, -1)
if was_done(base, ARGV[1]) then
  return {2, before}
end
local after, most_ms = {secret_entry(ARGV[2], now_ms, 0, ARGV[3])}, now_ms + tonumber(ARGV[4])
for _, entry in ipairs(before) do
  local id, created, until_ms, secret = secret_parts(entry)
  until_ms = until_ms == 0 and most_ms or math.min(until_ms, most_ms)
  if until_ms > now_ms then
    after[#after + 1] = secret_entry(id, created, until_ms, secret)
  end
end
if #after > tonumber(ARGV[5]) then
  return {-1, before}
end
redis.call('DEL', key)
redis.call('RPUSH', key, unpack(after))
note_done(base, ARGV[1], 24 * 3600000)
return {1, after}
