#!lua flags=allow-oom
-- Exchanges an account's name and the other one that it notes. Safe to repeat.
-- KEYS[1]  the account's prefix
-- ARGV[1]  the name
-- Returns  1 it is called so, 0 that is not noted, or there is no such account
local account = KEYS[1] .. K.ACCOUNT
local names = redis.call('HMGET', account, 'name', 'also')
if names[1] == ARGV[1] then
  return 1
end
if not names[1] or names[2] ~= ARGV[1] then
  return 0
end
redis.call('HSET', account, 'name', ARGV[1], 'also', names[1])
return 1
