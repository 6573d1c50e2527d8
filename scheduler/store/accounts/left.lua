#!lua flags=allow-oom
-- Ends an account's deletion: nothing tells of it any more. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
local prefix, base = KEYS[1], KEYS[1] .. ARGV[1] .. ':'
redis.call('ZCARD', prefix .. K.HEADS)
redis.call('ZCARD', prefix .. K.ACCOUNTS)
redis.pcall('ZREM', prefix .. K.PARKED, ARGV[1])
redis.call('UNLINK', base .. K.LEAVING, base .. K.WAITING)
redis.call('ZREM', prefix .. K.HEADS, ARGV[1])
redis.call('ZREM', prefix .. K.ACCOUNTS, ARGV[1])
return 1
