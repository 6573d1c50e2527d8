#!lua
-- Sends the callback of an ended schedule again: it is pending anew, and the schedule is kept until
-- it has ended. Safe to repeat with the same operation for a minute.
-- KEYS[1]  the shard's prefix
-- ARGV     account, schedule, operation, SHA-1 of the packed request that the caller read, the new
--          one ('': the same), `1` if that names where its end is reported, `a` if that is where
--          the account says, `0` if nowhere, the schedule as a member of `failed`; for each plan
--          with a quota: plan, bytes
-- Returns  {verdict, its callback's state}: DONE, UNKNOWN, NOT_ENDED, ENDED: it was cancelled,
--          PENDING, NO_CALLBACK_URL, CHANGED or NO_ROOM (''), LIMITED: in how many s it may be
--@include shared/now
--@include lifecycle/row/place
--@include shared/moment
--@include shared/operation
--@include lifecycle/row/failed
--@include lifecycle/row/weight
--@include lifecycle/callback/callbacks
--@include shared/rate
-- They are free, so an account may have so many a second, however many requests.
local RESENDS_A_SECOND = 50
local queue, schedule = callbacks_of(KEYS[1], ARGV[1]), ARGV[2]
local base, key = queue.base, queue.base .. K.SCHEDULE .. ARGV[2]
local stored = redis.call('HMGET', key, 'r', 'o', 'c')
local account = redis.call('HMGET', base .. K.ACCOUNT, 'plan', 'bytes', 'settled')
if not stored[1] or not account[1] then
  return {V.UNKNOWN, ''}
elseif was_done(base, ARGV[3]) then
  return {V.DONE, stored[3] or ''}
elseif not stored[2] then
  return {V.NOT_ENDED, ''}
elseif string.byte(stored[2], 8) == S.CANCELLED then
  return {V.ENDED, ''}
elseif stored[3] and string.sub(stored[3], 1, 1) == 'p' then
  return {V.PENDING, ''}
elseif ARGV[6] == '0'
  or ARGV[6] == 'a' and redis.call('HEXISTS', base .. K.CALLBACK, 'on') == 0 then
  return {V.NO_CALLBACK_URL, ''}
elseif redis.sha1hex(stored[1]) ~= ARGV[4] then
  return {V.CHANGED, ''}
end
local more = ARGV[5] ~= '' and #ARGV[5] - #stored[1] or 0
local bytes = stored_bytes(base, account[2], account[3]) + more
for i = 8, #ARGV, 2 do
  if ARGV[i] == account[1] and more > 0 and bytes > tonumber(ARGV[i + 1]) then
    return {V.NO_ROOM, ''}
  end
end
check_callbacks(queue)
local paid_until, found = count(read_paid_until(base, K.RESENDS), RESENDS_A_SECOND)
if found[4] > 0 then
  return {V.LIMITED, tostring(found[4])}
end
local forgotten_ms, hours = redis.call('PEXPIRETIME', key), {}
if forgotten_ms > 0 then
  local beside = has_failed(string.sub(stored[2], 7)) and letter_weight(ARGV[7]) or 0
  note_expiring(hours, -stored_weight(key) - beside, forgotten_ms)
end
local expiring = next(hours) and read_expiring(base, hours)
local weight = added(base .. K.ACCOUNT, {'bytes'}, {more - callback_weight(#(stored[3] or ''))})

local state = 'p' .. moment(now_ms)
redis.call('HSET', key, 'c', state, 'r', ARGV[5] ~= '' and ARGV[5] or stored[1])
redis.call('PERSIST', key)
write(weight)
write_paid_until(base, paid_until, K.RESENDS)
if expiring then
  write(expiring)
end
await_callbacks(queue, {}, {now_ms, schedule})
note_done(base, ARGV[3])
return {V.DONE, state}
