#!lua flags=allow-oom
-- Suspends an account, or resumes it. Claims pass over a suspended one: its heads stand before
-- every moment, and new schedules move heads to earlier moments only. A pause of it goes on after a
-- resumption. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, 1: suspend, 0: resume
-- Returns  1 done (now or before), 0 no such account
--@include shared/now
--@include lifecycle/row/place
--@include lifecycle/row/control
--@include lifecycle/callback/callbacks
--@include events/note
local base = KEYS[1] .. ARGV[1] .. ':'
local account = base .. K.ACCOUNT
if redis.call('EXISTS', account) == 0 then
  return 0
end
check_account(KEYS[1], ARGV[1])
check_callbacks(callbacks_of(KEYS[1], ARGV[1]))

if ARGV[2] ~= '0' then
  if redis.call('HSETNX', account, 'suspended', now_ms) == 1 then
    note_own(base, {k = 'account-suspended'})
  end
  stop_account(KEYS[1], ARGV[1])
  stop_callbacks(KEYS[1], ARGV[1])
elseif redis.call('HEXISTS', account, 'suspended') == 1 then
  note_own(base, {k = 'account-reinstated', s = redis.call('HGET', account, 'suspended')})
  redis.call('HDEL', account, 'suspended')
  start_callbacks(KEYS[1], ARGV[1])
  if redis.call('HEXISTS', account, 'paused') == 0 then
    start_account(KEYS[1], ARGV[1])
  end
end
return 1
