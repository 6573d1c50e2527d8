#!lua
-- Changes what a waiting schedule asks for and when. Safe to repeat with the same operation for an
-- hour.
-- KEYS[1]  the shard's prefix
-- ARGV     account, schedule, operation, the packed request as the caller read it, the new one,
--          its triggerAt (ms), and for each plan that has a quota: plan, what its schedules may
--          weigh (bytes)
-- Returns  {code, outcome}: 1 changed, 0 no such schedule, -1 it has ended (the outcome says how),
--          -2 a worker holds it, -3 it was changed since the caller read it, -4 it would take the
--          account over its quota
--@include now
--@include due
--@include operation
--@include schedules/weight
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
local account = redis.call('HMGET', base .. K.ACCOUNT, 'plan', 'bytes', 'settled')
local more = #ARGV[5] - #ARGV[4]
local bytes = stored_bytes(base, account[2], account[3]) + more
for i = 7, #ARGV, 2 do
  if ARGV[i] == account[1] and more > 0 and bytes > tonumber(ARGV[i + 1]) then
    return {-4, ''}
  end
end
redis.call('HSET', key, 'r', ARGV[5])
redis.call('HINCRBY', base .. K.ACCOUNT, 'bytes', more)
redis.call('ZADD', base .. K.WAITING, ARGV[6], schedule)
look_at(KEYS[1], ARGV[1], tonumber(ARGV[6]))
note_done(base, ARGV[3], 3600000)
return {1, ''}
