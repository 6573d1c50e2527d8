#!lua flags=no-writes
-- When an account is to be looked at and when its first schedule is due, both at one moment.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
-- Returns  {now (us), head (ms; '' if there is none), first due (ms; '' if nothing waits)}
--@include now
local head = redis.call('ZSCORE', KEYS[1] .. K.HEADS, ARGV[1])
local first = redis.call('ZRANGE', KEYS[1] .. ARGV[1] .. ':' .. K.WAITING, 0, 0, 'WITHSCORES')
return {now_us, head or '', first[2] or ''}
