#!lua flags=allow-oom
-- Writes something, so that WAIT on this connection speaks of this moment. Leaves nothing.
-- KEYS[1]  a key that nobody else uses
redis.call('SET', KEYS[1], '')
redis.call('DEL', KEYS[1])
return 1
