#!lua flags=allow-oom
-- Notes how far a bulk action is, if nobody else did since the caller read it. Safe to repeat with
-- the same operation.
-- KEYS[1]  the shard's prefix
-- ARGV[1…9] account, action, version that was read, operation, progress, state, how long until its
--          next turn (ms; '': it has nothing left to do), until the account's (ms), how long it is
--          kept (ms)
-- ARGV[10] '1': the caller keeps the turn until then
-- ARGV[11…] place of a group of replays and the group, for each that is new or changed. A new one
--          has the place behind the last
-- Returns  {DONE, state}: STOPPING, if its owner stopped it meanwhile; {CHANGED}, {UNKNOWN}
--@include shared/now
--@include bulk/turn
local prefix, account, action, operation = KEYS[1], ARGV[1], ARGV[2], ARGV[4]
local base = prefix .. account .. ':'
local key, made = base .. K.BULK .. action, base .. K.BULK_MADE .. action
local before, version, last = unpack(redis.call('HMGET', key, 's', 'v', 'w'))
if not version then
  return {V.UNKNOWN}
elseif last == operation then
  return {V.DONE, before}
elseif version ~= ARGV[3] then
  return {V.CHANGED}
end
local groups = redis.call('LLEN', made)
redis.call('ZSCORE', prefix .. K.BULK_DUE, account)
next_turn(base)

local state = before == 'stopping' and ARGV[6] == 'running' and before or ARGV[6]
redis.call('HSET', key, 'p', ARGV[5], 's', state, 'v', whole(version + 1), 'w', operation)
if ARGV[10] == '' then
  redis.call('HDEL', key, 'l')
end
if ARGV[7] == '' then
  redis.call('HDEL', key, 'n')
else
  redis.call('HSET', key, 'n', whole(now_ms + ARGV[7]))
end
for n = 11, #ARGV, 2 do
  local place = tonumber(ARGV[n])
  if place < groups then
    redis.call('LSET', made, place, ARGV[n + 1])
  else
    redis.call('RPUSH', made, ARGV[n + 1])
  end
end
redis.call('PEXPIRE', key, ARGV[9])
redis.call('PEXPIRE', made, ARGV[9])
time_account(prefix, account, now_ms + ARGV[8])
return {V.DONE, state}
