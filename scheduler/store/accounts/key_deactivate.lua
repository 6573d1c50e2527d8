#!lua flags=allow-oom
-- Deactivates an API key, from the next request on. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  key id
-- Returns  the key's SHA-256, or '' if there is no such key
local hash = redis.call('GET', KEYS[1] .. K.KEY_ID .. ARGV[1])
if not hash or redis.call('HLEN', KEYS[1] .. K.API_KEY .. hash) == 0 then
  return ''
end
redis.call('HSET', KEYS[1] .. K.API_KEY .. hash, 'active', '0')
return hash
