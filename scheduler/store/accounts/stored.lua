#!lua flags=no-writes
-- The weight of an account's schedules now, as a create would judge it.
-- KEYS[1]  the account's prefix
-- Returns  bytes
--@include shared/now
--@include lifecycle/row/weight
local stored = redis.call('HMGET', KEYS[1] .. K.ACCOUNT, 'bytes', 'settled')
return (stored_bytes(KEYS[1], stored[1], stored[2]))
