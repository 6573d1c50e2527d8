#!lua flags=allow-oom
-- Cancels a schedule that waits for its first attempt and gives its credit back, in one step; of its
-- request only a part is kept. Safe to repeat with the same operation for an hour.
-- KEYS[1]  the account's prefix
-- ARGV     schedule, operation, the packed request as the caller read it, packed outcome,
--          how long the ended schedule is kept (ms), how long the log is kept (ms), most log
--          entries, chunk of one log entry, URL bucket, URL digest, what is kept of the
--          request, packed
-- Returns  {code, credits, outcome}: 1 cancelled, 0 no such schedule, -1 it has ended (the outcome
--          says how), -2 a worker holds it, -3 it was changed or attempted since the caller read it
--@include now
--@include operation
--@include moment
--@include accounts/ledger
--@include log/append
--@include lifecycle/weight
local base, schedule, operation = KEYS[1], ARGV[1], ARGV[2]
local account, key = base .. K.ACCOUNT, base .. K.SCHEDULE .. schedule

local stored = redis.call('HMGET', key, 'r', 'o', 'n')
if not stored[1] or redis.call('EXISTS', account) == 0 then
  return {0, 0, ''}
end
if stored[2] then
  local code = was_done(base, operation) and 1 or -1
  return {code, number(redis.call('HGET', account, 'credits')), stored[2]}
end
if redis.call('ZSCORE', base .. K.HELD, schedule) then
  return {-2, 0, ''}
end
if stored[1] ~= ARGV[3] or stored[3] then
  return {-3, 0, ''}
end

local places, hours = {'cancelled', '', ARGV[9], ARGV[10]}, {}
redis.call('ZCARD', base .. K.WAITING)
redis.call('HLEN', base .. K.TRIED)
local log = read_log(base, 1, ARGV[8])
local outcome = moment(log.at) .. ARGV[4]
local ledger = added(account, {'credits', 'spent', 'bytes'}, {1, -1, #ARGV[11] - #stored[1]})
local movement = moved_credits(base, 'refunded', 1)
note_expiring(hours, weight_of(#ARGV[11]), now_ms + ARGV[5])
local expiring = read_expiring(base, hours)

append(base, log, ARGV[8], 1, places, tonumber(ARGV[6]), tonumber(ARGV[7]))
redis.call('HSET', key, 'r', ARGV[11], 'o', outcome)
redis.call('PEXPIRE', key, ARGV[5])
write(expiring)
redis.call('ZREM', base .. K.WAITING, schedule)
redis.call('HDEL', base .. K.TRIED, schedule)
write(ledger)
write(movement, ARGV[6])
note_done(base, operation, 3600000)
return {1, tonumber(ledger[2][2]), outcome}
