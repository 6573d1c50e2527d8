#!lua
-- Makes an API key. Safe to repeat: the same key is made once.
-- KEYS[1]  the shard's prefix
-- ARGV     account, key id, SHA-256 of the key, name, how the key begins
-- Returns  1 made (now or before), 0 no such account
--@include now
local base = KEYS[1] .. ARGV[1] .. ':'
local key = KEYS[1] .. K.API_KEY .. ARGV[3]
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return 0
end
if redis.call('EXISTS', key) == 0 then
  redis.call('HSET', key, 'account', ARGV[1], 'id', ARGV[2], 'name', ARGV[4], 'prefix', ARGV[5],
    'active', '1', 'created', now_ms)
  redis.call('SET', KEYS[1] .. K.KEY_ID .. ARGV[2], ARGV[3])
  redis.call('ZADD', base .. K.KEYS, now_ms, ARGV[2])
end
return 1
