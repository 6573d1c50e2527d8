#!lua flags=allow-oom
-- Puts a shard on hold, so that nothing of it is claimed, or ends that. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  1: on hold, 0: not
-- ARGV[2]  with 0: the last moment (ms) at which the hold that ends may have begun, so that a late
--          repeat does not end a newer one; empty: any
-- Returns  {now (us), since when it is on hold (ms; -1: it is not)}
--@include shared/now
local key = KEYS[1] .. K.HOLD
if ARGV[1] == '1' then
  redis.call('SET', key, now_ms, 'NX')
elseif ARGV[1] == '0' then
  local since = tonumber(redis.call('GET', key) or '0')
  if since <= tonumber(ARGV[2] ~= '' and ARGV[2] or 'inf') then
    redis.call('DEL', key)
  end
end
return {now_us, tonumber(redis.call('GET', key) or '-1')}
