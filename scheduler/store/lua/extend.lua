#!lua flags=allow-oom
-- Prolongs leases that are still held by the token that claimed them. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  lease (ms)
-- ARGV[2…] for each schedule: account, schedule, token, attempt
-- Returns  {now (us), a code for each}: 1 prolonged, 0 no longer held by this token
--@include now
local prefix = KEYS[1]
local lease_end = now_ms + tonumber(ARGV[1])
local codes = {}
local accounts = {}
for i = 2, #ARGV, 4 do
  local base = prefix .. ARGV[i] .. ':'
  local key = base .. 's:' .. ARGV[i + 1]
  local held = redis.call('HGET', key, 't') == ARGV[i + 2]
  if held then
    redis.call('ZADD', base .. 'waiting', 'XX', lease_end, ARGV[i + 1])
    accounts[ARGV[i]] = true
    -- A request that was sent again at once has used up an attempt that the store had not seen.
    redis.call('HSET', key, 'n', ARGV[i + 3])
  end
  codes[#codes + 1] = held and 1 or 0
end
-- A lease that is shorter than the one before ends earlier than its account is to be looked at.
for account in pairs(accounts) do
  redis.call('ZADD', prefix .. 'heads', 'LT', lease_end, account)
end
return {now_us, codes}
