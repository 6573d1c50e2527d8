#!lua flags=allow-oom
-- Has workers claim nothing of a shard from now on, or something again. Safe to repeat: what is on
-- hold already stays so since the moment that it has been.
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
