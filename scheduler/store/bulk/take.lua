#!lua flags=allow-oom
-- Gives the caller the next turn among an account's bulk actions, for the length of a lease: no
-- other of the account's actions has one meanwhile. A repeat after a lost reply finds none, until
-- the lease has ended.
-- KEYS[1]  the shard's prefix
-- ARGV     account; lease, and how long a suspended account waits (ms); from how far ahead on (ms)
--          a moment is from before the clock was set back
-- Returns  {action, what was asked, progress, state, version}; {}: none is due
--@include shared/now
--@include bulk/turn
local prefix, account, far_ms = KEYS[1], ARGV[1], now_ms + ARGV[4]
local base, due = prefix .. account .. ':', prefix .. K.BULK_DUE
local at_ms = tonumber(redis.call('ZSCORE', due, account) or '')
if not at_ms or (at_ms > now_ms and at_ms <= far_ms) then
  return {}
end
local name, suspended = unpack(redis.call('HMGET', base .. K.ACCOUNT, 'name', 'suspended'))
local action, turn_ms = next_turn(base)
if not name or not action then
  redis.call('ZREM', due, account)
  return {}
elseif suspended then
  redis.call('ZADD', due, whole(now_ms + ARGV[3]), account)
  return {}
elseif turn_ms > now_ms and turn_ms <= far_ms then
  redis.call('ZADD', due, whole(turn_ms), account)
  return {}
end
local key = base .. K.BULK .. action
local stored = redis.call('HMGET', key, 'r', 'p', 's', 'v')
local lease_ms = whole(now_ms + ARGV[2])
redis.call('ZADD', due, lease_ms, account)
redis.call('HSET', key, 'n', lease_ms, 'l', 1)
return {action, unpack(stored)}
