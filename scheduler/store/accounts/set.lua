#!lua flags=allow-oom
-- Sets a field of a hash that is there: an account, a session. Safe to repeat.
-- KEYS[1]  the hash
-- ARGV     field, value
-- Returns  1 set, 0 there is no such hash
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
