#!lua flags=allow-oom
-- Forgets that something was sealed with a key, unless a process has come or gone since that seals
-- with it. Safe to repeat.
-- KEYS[1]  the store's metadata
-- ARGV     the key's id, when a process that seals with it was heard last, as that was read ('': never)
-- Returns  1 it is forgotten, 0 it is not
if (redis.call('HGET', KEYS[1], 'sealed:' .. ARGV[1]) or '') ~= ARGV[2] then
  return redis.call('HEXISTS', KEYS[1], 'key:' .. ARGV[1]) == 0 and 1 or 0
end
redis.call('HDEL', KEYS[1], 'key:' .. ARGV[1], 'sealed:' .. ARGV[1])
return 1
