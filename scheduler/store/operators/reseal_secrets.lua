#!lua
-- Replaces signing secrets and the URL of callbacks, if not changed since, by the same ones sealed
-- anew. Safe to repeat.
-- KEYS[1]  the account's prefix
-- ARGV     an entry, or that URL, as the caller read it, the new one, …
-- Returns  how many of them are there as they are to be
local key, done, resealed, sealed_anew = KEYS[1] .. K.SIGNING, 0, {}, {}
for i = 1, #ARGV, 2 do
  resealed[ARGV[i]], sealed_anew[ARGV[i + 1]] = ARGV[i + 1], true
end
local entries, callbacks = redis.call('LRANGE', key, 0, -1), KEYS[1] .. K.CALLBACK
local url = redis.call('HGET', callbacks, 'url') or ''
for place, entry in ipairs(entries) do
  if resealed[entry] then
    redis.call('LSET', key, place - 1, resealed[entry])
  end
  if resealed[entry] or sealed_anew[entry] then
    done = done + 1
  end
end
if resealed[url] then
  redis.call('HSET', callbacks, 'url', resealed[url])
end
if resealed[url] or sealed_anew[url] then
  done = done + 1
end
return done
