#!lua flags=allow-oom
-- Puts a shard on hold, so that nothing of it is claimed, or ends that. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  1: on hold, 0: not; empty: only ask
-- Returns  {now (us), since when it is on hold (ms; -1: it is not)}
--@include now
local key = KEYS[1] .. K.HOLD
if ARGV[1] == '1' then
  redis.call('SET', key, now_ms, 'NX')
elseif ARGV[1] == '0' then
  redis.call('DEL', key)
end
return {now_us, tonumber(redis.call('GET', key) or '-1')}
