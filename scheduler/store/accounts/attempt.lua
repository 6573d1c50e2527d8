#!lua flags=allow-oom
-- Counts an attempt to sign in. A repeat after a lost reply counts twice, and does no more.
-- KEYS[1]  the counter
-- ARGV[1]  how long attempts are counted together (ms)
-- Returns  {attempts so far, this one among them, how long until they are forgotten (ms)}
local count = redis.call('INCR', KEYS[1])
if count == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return {count, redis.call('PTTL', KEYS[1])}
