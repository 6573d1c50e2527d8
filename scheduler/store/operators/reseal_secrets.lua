#!lua
-- Replaces signing secrets by the same ones, sealed anew; one that was changed since stays. Safe to
-- repeat.
-- KEYS[1]  the account's prefix
-- ARGV     an entry as the caller read it, the new one, …
-- Returns  how many of them are there as they are to be
local key, done = KEYS[1] .. K.SIGNING, 0
local entries = redis.call('LRANGE', key, 0, -1)
for i = 1, #ARGV, 2 do
  for place, entry in ipairs(entries) do
    if entry == ARGV[i] then
      redis.call('LSET', key, place - 1, ARGV[i + 1])
    end
    if entry == ARGV[i] or entry == ARGV[i + 1] then
      done = done + 1
    end
  end
end
return done
