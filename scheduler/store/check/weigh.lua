#!lua flags=no-writes
-- Weighs schedules of an account.
-- KEYS[1]  the account's prefix
-- ARGV     the schedules
-- Returns  {now (us), flat: weight (bytes; 0: gone) and when it is forgotten (ms; < 0: not known)}
--@include shared/now
--@include lifecycle/row/weight
local found = {}
for _, schedule in ipairs(ARGV) do
  local key = KEYS[1] .. schedule
  local there = redis.call('TYPE', key).ok == 'hash'
  found[#found + 1] = there and stored_weight(key) or 0
  found[#found + 1] = redis.call('PEXPIRETIME', key)
end
return {now_us, found}
