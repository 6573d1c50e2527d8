#!lua flags=allow-oom
-- Opens a session; a new password closes all others. Safe to repeat with the same session.
-- KEYS[1]  the shard's prefix
-- ARGV     account, SHA-256 of the session's secret, its CSRF token, how long it is open (ms), most
--          sessions of an account, argon2id of the new password ('': none is set)
-- Returns  1 open (now or before), 0 no such account
--@include shared/now
--@include accounts/sign_in/session
local prefix, account, session, password = KEYS[1], ARGV[1], ARGV[2], ARGV[6]
local base = prefix .. account .. ':'
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return 0
end
redis.call('ZCARD', base .. K.SESSIONS)
local others = password ~= '' and read_sessions(prefix, account, session)

if others then
  redis.call('HSET', base .. K.HOLDER, 'password', password)
  close_sessions(prefix, account, others)
end
if redis.call('EXISTS', prefix .. K.SESSION .. session) == 0 then
  open_session(prefix, account, session, ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]))
end
return 1
