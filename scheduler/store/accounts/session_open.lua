#!lua flags=allow-oom
-- Opens a session of an account. Safe to repeat with the same session.
-- KEYS[1]  the shard's prefix
-- ARGV     account, SHA-256 of the session's secret, its CSRF token, how long it is open (ms),
--          most sessions of an account
-- Returns  1 open (now or before), 0 no such account
--@include now
--@include accounts/session
local prefix, account = KEYS[1], ARGV[1]
if redis.call('EXISTS', prefix .. account .. ':' .. K.ACCOUNT) == 0 then
  return 0
end
redis.call('ZCARD', prefix .. account .. ':' .. K.SESSIONS)
if redis.call('EXISTS', prefix .. K.SESSION .. ARGV[2]) == 0 then
  open_session(prefix, account, ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]))
end
return 1
