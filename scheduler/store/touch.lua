#!lua flags=allow-oom
-- Writes something, so that WAIT on this connection speaks of this moment.
-- KEYS[1]  a key that means nothing
redis.call('SET', KEYS[1], '')
return 1
