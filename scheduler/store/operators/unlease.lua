#!lua flags=allow-oom
-- Gives back what workers of another time held: due as it was, the attempt used. Of a lease that has
-- not ended the worker may be alive: it stays. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, most to give back
-- Returns  {now (us), how many were given back, when the last lease ends (ms; -1: none is left),
--          as far as it looked: all the way, unless as many were given back as may be}
--@include now
--@include due
local prefix, account = KEYS[1], ARGV[1]
local base = prefix .. account .. ':'
local waiting, held = base .. K.WAITING, base .. K.HELD
local given_back, last_end = 0, -1
check_heads(prefix)
redis.call('HLEN', base .. K.TRIED)
local members = redis.call('ZRANGE', held, 0, -1, 'WITHSCORES')
for i = 1, #members, 2 do
  if given_back == tonumber(ARGV[2]) then
    break
  end
  local schedule, due_ms = members[i], members[i + 1]
  local lease_end = tonumber(redis.call('ZSCORE', waiting, schedule) or '0')
  if lease_end > now_ms then
    last_end = math.max(last_end, math.ceil(lease_end))
  else
    redis.call('HSETNX', base .. K.TRIED, schedule, 1)
    redis.call('ZREM', held, schedule)
    redis.call('ZADD', waiting, due_ms, schedule)
    look_at(prefix, account, tonumber(due_ms))
    given_back = given_back + 1
  end
end
return {now_us, given_back, last_end}
