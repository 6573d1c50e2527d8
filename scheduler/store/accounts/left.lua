#!lua flags=allow-oom
-- Ends an account's deletion. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
--@include shared/now
--@include lifecycle/row/place
--@include lifecycle/row/control
--@include lifecycle/callback/callbacks
local prefix, base = KEYS[1], KEYS[1] .. ARGV[1] .. ':'
check_heads(prefix)
redis.call('ZCARD', prefix .. K.ACCOUNTS)
redis.call('ZCARD', prefix .. K.RESUMED)
redis.call('ZCARD', prefix .. K.CALLBACK_HEADS)
redis.pcall('ZREM', prefix .. K.PARKED, ARGV[1])
redis.call('UNLINK', base .. K.LEAVING)
clear_account(prefix, ARGV[1])
clear_callbacks(prefix, ARGV[1])
for _, name in ipairs({ARGV[1], ARGV[1] .. '/', '!' .. ARGV[1]}) do
  look_again(prefix, name, nil)
end
redis.call('ZREM', prefix .. K.RESUMED, ARGV[1])
redis.call('ZREM', prefix .. K.ACCOUNTS, ARGV[1])
return 1
