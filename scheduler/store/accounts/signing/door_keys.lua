#!lua
-- The two keys that sign what an account's QStash door sends, made if it has none. Safe to repeat with
-- the same new keys.
-- KEYS[1]  the account's prefix
-- ARGV     id and stored form of a new key, the same of another one, `1`: the next key becomes the
--          current one, and the other new one the next; who rotates
-- Returns  {1, the current and the next key}; {0, {}} no such account
--@include shared/now
--@include events/note
--@include accounts/signing/signing
local base, key = KEYS[1], KEYS[1] .. K.SIGNING
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return {0, {}}
end
local found, made = {}, {}
for _, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do
  if is_of_door(entry) then
    found[#found + 1] = entry
  end
end
local first = secret_entry(ARGV[1], now_ms, 0, ARGV[2])
local second = secret_entry(ARGV[3], now_ms, 0, ARGV[4])
local rotates = ARGV[5] == '1' and #found > 1 and string.match(found[2], '^%S+') ~= ARGV[3]
if rotates then
  made = {second}
elseif #found < 2 then
  made = #found == 0 and {first, second} or {second}
end

for _, entry in ipairs(made) do
  redis.call('RPUSH', key, entry)
  found[#found + 1] = entry
end
if rotates then
  redis.call('LREM', key, 1, table.remove(found, 1))
  note_own(base, {k = 'secrets-rotated', w = ARGV[6]})
end
return {1, found}
