#!lua
-- Changes what a waiting schedule asks for and when. Safe to repeat with the same operation: the
-- last one is written in the schedule.
-- KEYS[1]  the account's prefix
-- KEYS[2]  the shard's prefix
-- ARGV     account, schedule, operation, the packed request as the caller read it, the new one,
--          its triggerAt (ms)
-- Returns  {code, status}: 1 changed, 0 no such schedule, -1 it has ended (status says how),
--          -2 a worker holds it, -3 it was changed since the caller read it
--@include now
local base, key = KEYS[1], KEYS[1] .. 's:' .. ARGV[2]
local stored = redis.call('HMGET', key, 'r', 's', 't', 'x')
if not stored[1] then
  return {0, ''}
end
if stored[4] == ARGV[3] then
  return {1, ''}
end
if stored[2] then
  return {-1, stored[2]}
end
if stored[3] then
  return {-2, ''}
end
if stored[1] ~= ARGV[4] then
  return {-3, ''}
end
redis.call('HSET', key, 'r', ARGV[5], 'x', ARGV[3])
redis.call('ZADD', base .. 'waiting', ARGV[6], ARGV[2])
redis.call('ZADD', KEYS[2] .. 'heads', 'LT', math.max(tonumber(ARGV[6]), now_ms), ARGV[1])
return {1, ''}
