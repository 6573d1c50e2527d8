#!lua flags=allow-oom
-- Suspends an account: none of its calls is carried out, and no worker looks at it. Its head stands
-- before every moment, where no claim looks, and what comes in moves a head to earlier ones only:
-- what waits goes on waiting. What is held already is fired. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
-- Returns  1 suspended (now or before), 0 no such account
--@include now
--@include lifecycle/place
local account = KEYS[1] .. ARGV[1] .. ':' .. K.ACCOUNT
if redis.call('EXISTS', account) == 0 then
  return 0
end
check_heads(KEYS[1])
redis.call('HSETNX', account, 'suspended', now_ms)
look_again(KEYS[1], ARGV[1], '-inf')
return 1
