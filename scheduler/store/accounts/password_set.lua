#!lua flags=allow-oom
-- Sets the password of an account's holder, closes all sessions, and opens a new one for who did it.
-- Safe to repeat with the same session.
-- KEYS[1]  the shard's prefix
-- ARGV     account, argon2id of the password, SHA-256 of the new session's secret, its CSRF token, how
--          long it is open (ms), most sessions of an account
-- Returns  1 set, 0 no such account
--@include now
--@include accounts/session
local prefix, account, session = KEYS[1], ARGV[1], ARGV[3]
local base = prefix .. account .. ':'
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return 0
end
local sessions = read_sessions(prefix, account, session)

redis.call('HSET', base .. K.HOLDER, 'password', ARGV[2])
close_sessions(prefix, account, sessions)
if redis.call('EXISTS', prefix .. K.SESSION .. session) == 0 then
  open_session(prefix, account, session, ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]))
end
return 1
