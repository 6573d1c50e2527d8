#!lua flags=allow-oom
-- Its owner stops a bulk action, which then is due at once, or closes one on the pages; or a process
-- puts off one that it cannot read. What a step has begun is finished. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, action; 'stop', 'close' or 'defer'; for how long it is put off (ms)
-- Returns  DONE; UNKNOWN: there is none
--@include shared/now
--@include bulk/turn
local prefix, account, what = KEYS[1], ARGV[1], ARGV[3]
local base = prefix .. account .. ':'
local key = base .. K.BULK .. ARGV[2]
local state, turn, leased = unpack(redis.call('HMGET', key, 's', 'n', 'l'))
if not state then
  return V.UNKNOWN
end
redis.call('ZSCORE', prefix .. K.BULK_DUE, account)
if what == 'defer' then
  next_turn(base)
end

if what == 'close' then
  redis.call('HSET', key, 'c', '1')
elseif what == 'defer' and turn then
  redis.call('HSET', key, 'n', whole(now_ms + ARGV[4]))
  redis.call('HDEL', key, 'l')
  time_account(prefix, account, now_ms)
elseif what == 'stop' and state == 'running' then
  redis.call('HSET', key, 's', 'stopping')
  if not (leased and (tonumber(turn or '') or 0) > now_ms) then
    redis.call('HSET', key, 'n', now_ms)
  end
  hasten_account(prefix, account, now_ms)
end
return V.DONE
