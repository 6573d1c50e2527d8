#!lua flags=allow-oom
-- Ends a waiting schedule on its owner's word, in one step. Before its first attempt it is cancelled,
-- and its credit given back; between two attempts it ends as the last one did, which counts as its
-- execution. Safe to repeat with the same operation for an hour.
-- KEYS[1]  the account's prefix
-- ARGV     schedule, operation, the packed request as the caller read it, and the attempt before ('':
--          none was), packed outcome, how long the ended schedule is kept (ms), how long the log is
--          kept (ms), most log entries, how long single seconds are kept (ms), chunk of one log entry,
--          its status, URL bucket, URL digest; of one that was attempted how long it is a dead letter
--          (ms), most dead letters, how long others are kept that ended (ms), response time (ms), and
--          the buckets of the histograms that it counts in
-- Returns  {code, credits, outcome}: 1 done, 0 no such schedule, -1 it has ended (the outcome says
--          how), -2 a worker holds it, -3 it was changed or attempted since the caller read it
--@include now
--@include operation
--@include moment
--@include accounts/ledger
--@include log/append
--@include log/count
--@include schedules/failed
local base, schedule, operation = KEYS[1], ARGV[1], ARGV[2]
local account, key = base .. K.ACCOUNT, base .. K.SCHEDULE .. schedule
local ttl_ms = tonumber(ARGV[7])

local stored = redis.call('HMGET', key, 'r', 'o', 'n')
if not stored[1] or redis.call('EXISTS', account) == 0 then
  return {0, 0, ''}
end
if stored[2] then
  local code = was_done(base, operation) and 1 or -1
  return {code, tonumber(redis.call('HGET', account, 'credits')), stored[2]}
end
if redis.call('ZSCORE', base .. K.HELD, schedule) then
  return {-2, 0, ''}
end
if stored[1] ~= ARGV[3] or (stored[3] or '') ~= ARGV[4] then
  return {-3, 0, ''}
end

local at = append(base, ARGV[10], 1, {ARGV[11], '', ARGV[12], ARGV[13]}, ttl_ms, tonumber(ARGV[8]))
local outcome = moment(at) .. ARGV[5]
redis.call('HSET', key, 'o', outcome)
redis.call('PEXPIRE', key, ARGV[6])
redis.call('ZREM', base .. K.WAITING, schedule)
redis.call('HDEL', base .. K.TRIED, schedule)
note_done(base, operation, 3600000)
if stored[3] then
  redis.call('HDEL', key, 'n')
  note_failed(base, {at, schedule}, tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16]))
  local spread = {}
  for i = 18, #ARGV do
    spread[#spread + 1], spread[#spread + 2] = ARGV[i], 1
  end
  count(base, at, {R.FAILED, 1, R.RESPONSE_TIME, ARGV[17]}, spread, ttl_ms, ARGV[9])
  return {1, tonumber(redis.call('HGET', account, 'credits')), outcome}
end
redis.call('HINCRBY', account, 'spent', -1)
move_credits(base, 'refunded', 1, ttl_ms)
return {1, redis.call('HINCRBY', account, 'credits', 1), outcome}
