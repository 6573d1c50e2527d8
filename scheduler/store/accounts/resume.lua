#!lua flags=allow-oom
-- Ends an account's suspension: what came due meanwhile is due now. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
-- Returns  1 it goes on (now or before), 0 no such account
--@include now
--@include lifecycle/place
local prefix, base = KEYS[1], KEYS[1] .. ARGV[1] .. ':'
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return 0
end
check_heads(prefix)
local first = redis.call('ZRANGE', base .. K.WAITING, 0, 0, 'WITHSCORES')

if redis.call('HDEL', base .. K.ACCOUNT, 'suspended') == 1 then
  look_again(prefix, ARGV[1], first[2] and math.max(tonumber(first[2]), now_ms))
end
return 1
