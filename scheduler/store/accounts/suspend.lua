#!lua flags=allow-oom
-- Suspends an account, or resumes it. Claims pass over a suspended one: its head stands before
-- every moment, and new schedules move heads to earlier moments only. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, 1: suspend, 0: resume
-- Returns  1 done (now or before), 0 no such account
--@include now
--@include lifecycle/place
local base = KEYS[1] .. ARGV[1] .. ':'
local account = base .. K.ACCOUNT
if redis.call('EXISTS', account) == 0 then
  return 0
end
check_heads(KEYS[1])
local resumes = ARGV[2] == '0'
local first = resumes and redis.call('ZRANGE', base .. K.WAITING, 0, 0, 'WITHSCORES')

if not resumes then
  redis.call('HSETNX', account, 'suspended', now_ms)
  look_again(KEYS[1], ARGV[1], '-inf')
elseif redis.call('HDEL', account, 'suspended') == 1 then
  look_again(KEYS[1], ARGV[1], first[2] and math.max(tonumber(first[2]), now_ms))
end
return 1
