#!lua
-- Replaces signing secrets that were not changed since by the same sealed anew. Safe to repeat.
-- KEYS[1]  the account's prefix
-- ARGV     an entry as the caller read it, the new one, …
-- Returns  how many of them are there as they are to be
local key, done, resealed, sealed_anew = KEYS[1] .. K.SIGNING, 0, {}, {}
for i = 1, #ARGV, 2 do
  resealed[ARGV[i]], sealed_anew[ARGV[i + 1]] = ARGV[i + 1], true
end
for place, entry in ipairs(redis.call('LRANGE', key, 0, -1)) do
  if resealed[entry] then
    redis.call('LSET', key, place - 1, resealed[entry])
  end
  if resealed[entry] or sealed_anew[entry] then
    done = done + 1
  end
end
return done
