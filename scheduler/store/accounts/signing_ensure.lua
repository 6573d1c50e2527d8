#!lua flags=allow-oom
-- Gives an account that has no signing secret this one. Safe to repeat: the first one stays.
-- KEYS[1]  the account's prefix
-- ARGV     the secret's id, the secret as it is stored
-- Returns  its secrets, the newest first; {} if there is no such account
--@include now
--@include accounts/signing
local key = KEYS[1] .. K.SIGNING
if redis.call('EXISTS', KEYS[1] .. K.ACCOUNT) == 0 then
  return {}
end
if redis.call('EXISTS', key) == 0 then
  redis.call('RPUSH', key, secret_entry(ARGV[1], now_ms, 0, ARGV[2]))
end
return redis.call('LRANGE', key, 0, -1)
