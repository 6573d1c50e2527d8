#!lua flags=allow-oom
-- Removes some API keys of an account that is being deleted. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, most keys to remove
-- Returns  how many are left
local prefix, keys = KEYS[1], KEYS[1] .. ARGV[1] .. ':' .. K.KEYS
for _, key in ipairs(redis.call('ZRANGE', keys, 0, ARGV[2] - 1)) do
  local hash = redis.pcall('GET', prefix .. K.KEY_ID .. key)
  if type(hash) == 'string' then
    redis.call('DEL', prefix .. K.API_KEY .. hash)
  end
  redis.call('DEL', prefix .. K.KEY_ID .. key)
  redis.call('ZREM', keys, key)
end
return redis.call('ZCARD', keys)
