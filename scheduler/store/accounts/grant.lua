#!lua
-- Adds credits to an account. Safe to repeat with the same operation for a day.
-- KEYS[1]  the account's prefix
-- ARGV     operation, credits, how long a day's rollup is kept (ms)
-- Returns  1 granted (now or before), 0 no such account, -1 all grants would come to over 2^53
--@include shared/now
--@include shared/operation
--@include shared/ledger
local base, credits = KEYS[1], ARGV[2]
local account = base .. K.ACCOUNT
if redis.call('EXISTS', account) == 0 then
  return 0
end
if was_done(base, ARGV[1]) then
  return 1
end
if tonumber(credits) > 2 ^ 53 - number(redis.call('HGET', account, 'granted')) then
  return -1
end
local ledger = added(account, {'credits', 'granted'}, {credits, credits})
local movement = moved_credits(base, 'granted', credits)

write(ledger)
write(movement, ARGV[3])
note_done(base, ARGV[1], 86400000)
return 1
