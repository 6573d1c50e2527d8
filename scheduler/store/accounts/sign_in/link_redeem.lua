#!lua flags=allow-oom
-- Removes a one-time link and opens a session. A new password closes the member's others; of an
-- invitation it makes a member. Safe to repeat with the same session.
-- KEYS[1]  the shard's prefix
-- ARGV     SHA-256 of the link's secret, its purpose, argon2id of the new password ('': none),
--          SHA-256 of the session's secret, its CSRF token, how long it is open (ms), most sessions
-- Returns  {account, member}, or {} if there is no such link (any more)
--@include shared/now
--@include accounts/sign_in/session
--@include events/note
local prefix = KEYS[1]
local opened = redis.call('HMGET', prefix .. K.SESSION .. ARGV[4], 'account', 'member')
if opened[1] then
  return opened
end
local key = prefix .. K.LINK .. ARGV[1]
local account, member, purpose, epoch = unpack(
  redis.call('HMGET', key, 'account', 'member', 'purpose', 'epoch'))
if not account or purpose ~= ARGV[2] then
  return {}
end
local base = prefix .. account .. ':'
local about = base .. K.MEMBER .. member
local email, invited, role, now_epoch = unpack(
  redis.call('HMGET', about, 'email', 'until', 'role', 'epoch'))
local good = redis.call('EXISTS', base .. K.ACCOUNT) == 1 and epoch == (now_epoch or '0')
  and (member == '' or email) and (purpose == 'invite') == (invited and true or false)
local sessions = read_sessions(prefix, account, member, '')
redis.call('ZCARD', base .. K.MEMBERS)
redis.call('ZCARD', base .. K.INVITED)

redis.call('DEL', key)
if not good then
  return {}
end
if ARGV[3] ~= '' then
  redis.call('HSET', about, 'password', ARGV[3])
  redis.call('HDEL', about, 'link', 'until')
  close_sessions(prefix, account, member, sessions)
end
if invited then
  redis.call('PERSIST', about)
  redis.call('ZADD', base .. K.MEMBERS, now_ms, member)
  redis.call('ZREM', base .. K.INVITED, member)
  note_own(base, {k = 'member-joined', w = email, t = role})
end
open_session(prefix, account, member, ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]))
return {account, member}
