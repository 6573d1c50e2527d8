#!lua flags=allow-oom
-- Cancels a waiting schedule and gives its credit back, in one step. Safe to repeat with the same
-- operation: what it did is written in the schedule.
-- KEYS[1]  the account's prefix
-- ARGV     schedule, operation, the packed request as the caller read it, log entry,
--          URL bucket, URL digest, how long the ended schedule is kept (ms), how long the log is
--          kept (ms), most log entries
-- Returns  {code, credits, status}: 1 cancelled, 0 no such schedule, -1 it has ended (status says
--          how), -2 a worker holds it, -3 it was changed since the caller read it
--@include now
--@include ledger
--@include append
local base = KEYS[1]
local schedule, operation, request, entry = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local account, key = base .. 'account', base .. 's:' .. schedule
local ttl_ms = tonumber(ARGV[8])

local stored = redis.call('HMGET', key, 'r', 's', 't', 'x')
if not stored[1] then
  return {0, 0, ''}
end
if stored[2] then
  local code = stored[4] == operation and 1 or -1
  return {code, tonumber(redis.call('HGET', account, 'credits')), stored[2]}
end
if stored[3] then
  return {-2, 0, ''}
end
if stored[1] ~= request then
  return {-3, 0, ''}
end

local at = appender(ttl_ms, ARGV[9])(base, 'cancelled', entry, ARGV[5], ARGV[6])
redis.call('HSET', key, 's', 'cancelled', 'x', operation, 'e', at)
redis.call('PEXPIRE', key, ARGV[7])
redis.call('ZREM', base .. 'waiting', schedule)
redis.call('HINCRBY', account, 'spent', -1)
move_credits(base, 'refunded', 1, ttl_ms)
return {1, redis.call('HINCRBY', account, 'credits', 1), 'cancelled'}
