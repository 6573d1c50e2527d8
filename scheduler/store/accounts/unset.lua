#!lua flags=allow-oom
-- Removes a field of a hash, if it has this value. Safe to repeat.
-- KEYS[1]  the hash
-- ARGV     field, value
-- Returns  1 removed, 0 it has another value, or none
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0
end
return redis.call('HDEL', KEYS[1], ARGV[1])
