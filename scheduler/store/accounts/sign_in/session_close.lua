#!lua flags=allow-oom
-- Closes one session of an account, or all of them. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, SHA-256 of the session's secret; '': all, and links not yet used are void
--@include accounts/sign_in/session
local prefix, account = KEYS[1], ARGV[1]
if ARGV[2] == '' then
  close_sessions(prefix, account, read_sessions(prefix, account, ''))
else
  redis.call('ZCARD', prefix .. account .. ':' .. K.SESSIONS)
  redis.call('DEL', prefix .. K.SESSION .. ARGV[2])
  redis.call('ZREM', prefix .. account .. ':' .. K.SESSIONS, ARGV[2])
end
return 1
