#!lua flags=allow-oom
-- Counts an attempt to sign in. A repeat counts twice.
-- KEYS[1]  the counter
-- ARGV[1]  how long attempts are counted together (ms)
-- Returns  {attempts, with this one; how long until they are forgotten (ms)}
local count = redis.call('INCR', KEYS[1])
if count == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return {count, redis.call('PTTL', KEYS[1])}
