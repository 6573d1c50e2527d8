#!lua flags=allow-oom
-- Opens a session; a new password closes the member's others. Safe to repeat with the same session.
-- KEYS[1]  the shard's prefix
-- ARGV     account, member ('': the account itself), SHA-256 of the session's secret, its CSRF
--          token, how long it is open (ms), most sessions of a member, argon2id of the new password
--          ('': none is set)
-- Returns  1 open (now or before), 0 no such account or member
--@include shared/now
--@include accounts/sign_in/session
local prefix, account, member, session, password = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[7]
local base = prefix .. account .. ':'
if not may_sign_in(base, member) then
  return 0
end
redis.call('ZCARD', base .. K.SESSIONS .. member)
local others = password ~= '' and read_sessions(prefix, account, member, session)

if others then
  redis.call('HSET', base .. K.MEMBER .. member, 'password', password)
  close_sessions(prefix, account, member, others)
end
if redis.call('EXISTS', prefix .. K.SESSION .. session) == 0 then
  open_session(prefix, account, member, session, ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]))
end
return 1
