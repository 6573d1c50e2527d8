#!lua flags=allow-oom
-- Sets the password of an account's holder and closes all sessions but one. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, argon2id of the password, SHA-256 of the session that stays ('': none)
-- Returns  1 set, 0 no such account
--@include accounts/session
local base = KEYS[1] .. ARGV[1] .. ':'
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return 0
end
redis.call('HSET', base .. K.HOLDER, 'password', ARGV[2])
close_sessions(KEYS[1], ARGV[1], ARGV[3])
return 1
