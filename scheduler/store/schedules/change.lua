#!lua
-- Changes what a waiting schedule asks for and when. Safe to repeat with the same operation for an
-- hour.
-- KEYS[1]  the shard's prefix
-- ARGV     account, schedule, operation, the packed request as the caller read it, the new one,
--          its triggerAt (ms)
-- Returns  {code, outcome}: 1 changed, 0 no such schedule, -1 it has ended (the outcome says how),
--          -2 a worker holds it, -3 it was changed since the caller read it
--@include now
--@include due
--@include operation
local base, schedule = KEYS[1] .. ARGV[1] .. ':', ARGV[2]
local key = base .. K.SCHEDULE .. schedule
local stored = redis.call('HMGET', key, 'r', 'o')
if not stored[1] then
  return {0, ''}
end
if was_done(base, ARGV[3]) then
  return {1, ''}
end
if stored[2] then
  return {-1, stored[2]}
end
if redis.call('ZSCORE', base .. K.HELD, schedule) then
  return {-2, ''}
end
if stored[1] ~= ARGV[4] then
  return {-3, ''}
end
redis.call('HSET', key, 'r', ARGV[5])
redis.call('ZADD', base .. K.WAITING, ARGV[6], schedule)
look_at(KEYS[1], ARGV[1], tonumber(ARGV[6]))
note_done(base, ARGV[3], 3600000)
return {1, ''}
