#!lua flags=allow-oom
-- Ends an account's deletion. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
--@include now
--@include lifecycle/place
local prefix, base = KEYS[1], KEYS[1] .. ARGV[1] .. ':'
check_heads(prefix)
redis.call('ZCARD', prefix .. K.ACCOUNTS)
redis.pcall('ZREM', prefix .. K.PARKED, ARGV[1])
redis.call('UNLINK', base .. K.LEAVING)
clear(queue_of(prefix, ARGV[1]))
look_again(prefix, ARGV[1], nil)
redis.call('ZREM', prefix .. K.ACCOUNTS, ARGV[1])
return 1
