#!lua flags=allow-oom
-- Sets a field of an account. Safe to repeat.
-- KEYS[1]  the account's prefix
-- ARGV     field, value
-- Returns  1 set, 0 no such account
local account = KEYS[1] .. K.ACCOUNT
if redis.call('EXISTS', account) == 0 then
  return 0
end
redis.call('HSET', account, ARGV[1], ARGV[2])
return 1
