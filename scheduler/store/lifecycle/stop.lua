#!lua flags=allow-oom
-- Ends a schedule between two attempts on its owner's word: it has failed as the last one did, and
-- that counts as its execution. No credit moves. Safe to repeat with the same operation for an hour.
-- KEYS[1]  the account's prefix
-- ARGV[1]  schedule
-- ARGV[2]  operation
-- ARGV[3]  the attempt before the next, as the caller read it
-- ARGV[4]  the packed request, as the caller read it
-- ARGV[5]  packed outcome
-- ARGV[6]  chunk of one log entry
-- ARGV[7]  URL bucket
-- ARGV[8]  URL digest
-- ARGV[9]  response time (ms)
-- ARGV[10] how long others are kept that ended (ms)
-- ARGV[11] how long log and statistics are kept (ms)
-- ARGV[12] most log entries
-- ARGV[13] how long single seconds are kept (ms)
-- ARGV[14] how long a failed schedule is kept (ms)
-- ARGV[15] how long of that as a dead letter (ms)
-- ARGV[16] most dead letters
-- ARGV[17…] the buckets of the histograms that it counts in
-- Returns  {code, credits, outcome}: 1 stopped, 0 no such schedule, -1 it has ended (the outcome says
--          how), -2 a worker holds it, -3 it was changed or attempted since the caller read it
--@include now
--@include operation
--@include moment
--@include log/append
--@include log/count
--@include lifecycle/failed
--@include lifecycle/weight
local base, schedule, operation = KEYS[1], ARGV[1], ARGV[2]
local account, key = base .. K.ACCOUNT, base .. K.SCHEDULE .. schedule
local ttl_ms, kept_ms = tonumber(ARGV[11]), tonumber(ARGV[14])

local stored = redis.call('HMGET', key, 'r', 'o', 'n')
local credits = number(redis.call('HGET', account, 'credits') or -1)
if not stored[1] or credits == -1 then
  return {0, 0, ''}
end
if stored[2] then
  return {was_done(base, operation) and 1 or -1, credits, stored[2]}
end
if redis.call('ZSCORE', base .. K.HELD, schedule) then
  return {-2, 0, ''}
end
if stored[3] ~= ARGV[3] or stored[1] ~= ARGV[4] then
  return {-3, 0, ''}
end

local places, spread, hours = {'failed', '', ARGV[7], ARGV[8]}, {}, {}
for i = 17, #ARGV do
  spread[#spread + 1], spread[#spread + 2] = ARGV[i], 1
end
redis.call('ZCARD', base .. K.WAITING)
redis.call('HLEN', base .. K.TRIED)
local log = read_log(base, 1, ARGV[6])
local outcome = moment(log.at) .. ARGV[5]
local letters_ms, most_letters, schedule_ms = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[10])
local trimmed = read_failed(base, 1, log.at, letters_ms, most_letters, schedule_ms, hours)
note_expiring(hours, stored_weight(key) + answer_weight(#outcome), now_ms + kept_ms)
local expiring = read_expiring(base, hours)
local rollups = read_rollups(base, log.at, {R.FAILED, 1, R.RESPONSE_TIME, ARGV[9]}, spread)

append(base, log, ARGV[6], 1, places, ttl_ms, tonumber(ARGV[12]))
redis.call('HSET', key, 'o', outcome)
redis.call('HDEL', key, 'n')
redis.call('PEXPIRE', key, kept_ms)
note_failed(base, {log.at, schedule}, trimmed, letters_ms)
write(expiring)
redis.call('ZREM', base .. K.WAITING, schedule)
redis.call('HDEL', base .. K.TRIED, schedule)
count(rollups, ttl_ms, ARGV[13])
note_done(base, operation, 3600000)
return {1, credits, outcome}
