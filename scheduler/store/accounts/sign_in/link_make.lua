#!lua flags=allow-oom
-- Makes a one-time link. Safe to repeat: the same link is made once.
-- KEYS[1]  the shard's prefix
-- ARGV     account, SHA-256 of the link's secret, what it is for, how long it is good (ms)
-- Returns  1 made (now or before), 0 no such account
local base, key = KEYS[1] .. ARGV[1] .. ':', KEYS[1] .. K.LINK .. ARGV[2]
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return 0
end
local epoch = redis.call('HGET', base .. K.HOLDER, 'epoch') or '0'
redis.call('HSET', key, 'account', ARGV[1], 'purpose', ARGV[3], 'epoch', epoch)
redis.call('PEXPIRE', key, ARGV[4])
return 1
