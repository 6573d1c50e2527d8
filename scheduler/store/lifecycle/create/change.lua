#!lua
-- Changes a waiting schedule's request; between two attempts a new triggerAt moves the next one.
-- Safe to repeat with the same operation for a minute.
-- KEYS[1]  the shard's prefix
-- ARGV[1…4] account, operation, SHA-1 of the packed request that the caller read, and the attempt
--          before ('': none)
-- ARGV[5…7] of that request: lane, reference ('': none), what these weigh (bytes)
-- ARGV[8…] a named row, as `put.inc.lua` has it, with the new request (triggerAt '': the same); for
--          each plan with a quota: plan, bytes
-- Returns  {verdict, said}: DONE (the attempt before; '': none), ENDED (the outcome), UNKNOWN,
--          HELD, CHANGED, NO_ROOM or TOO_MANY_LANES ('')
--@include shared/now
--@include lifecycle/row/place
--@include shared/moment
--@include shared/operation
--@include shared/ledger
--@include lifecycle/row/weight
--@include lifecycle/row/put
local ROW, quotas = 8, {}
for i = 14, #ARGV, 2 do
  quotas[ARGV[i]] = tonumber(ARGV[i + 1])
end
local account, schedule, due = payer_of(KEYS[1], ARGV[1]), ARGV[ROW], tonumber(ARGV[ROW + 1])
local base = account.base
local key = base .. schedule
local stored = redis.call('HMGET', key, 'r', 'o', 'n')
local attempt = stored[3] or ''
if not stored[1] then
  return {V.UNKNOWN, ''}
end
if was_done(base, ARGV[2]) then
  return {V.DONE, attempt}
end
if stored[2] then
  return {V.ENDED, stored[2]}
end
if redis.call('ZSCORE', base .. K.HELD, schedule) then
  return {V.HELD, ''}
end
if redis.sha1hex(stored[1]) ~= ARGV[3] or attempt ~= ARGV[4] then
  return {V.CHANGED, ''}
end
read_payer(account, quotas)
if not account.plan then
  return {V.UNKNOWN, ''}
end
local one = {schedule = schedule, key = key, size = #stored[1], lane = ARGV[5], reference = ARGV[6],
  weighs = tonumber(ARGV[7])}
local why = of_names().unfit(account, one, ROW, ARGV[ROW + 2])
if why then
  return {why, ''}
end
if due and stored[3] then
  attempt = string.sub(attempt, 1, 6) .. moment(due) .. string.sub(attempt, 13)
  one.attempt = attempt
end
check_heads(KEYS[1])
of_names().exchange(account, one, ROW, ARGV[ROW + 2])
sum_up(account)

put(account)
note_done(base, ARGV[2])
return {V.DONE, attempt}
