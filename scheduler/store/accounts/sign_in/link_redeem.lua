#!lua flags=allow-oom
-- Removes a one-time link and opens a session; a new password closes all others. Safe to repeat
-- with the same session.
-- KEYS[1]  the shard's prefix
-- ARGV     SHA-256 of the link's secret, its purpose, argon2id of the new password ('': none),
--          SHA-256 of the session's secret, its CSRF token, how long it is open (ms), most sessions
-- Returns  the account, or '' if there is no such link (any more)
--@include shared/now
--@include accounts/sign_in/session
local prefix = KEYS[1]
local opened = redis.call('HGET', prefix .. K.SESSION .. ARGV[4], 'account')
if opened then
  return opened
end
local key = prefix .. K.LINK .. ARGV[1]
local link = redis.call('HMGET', key, 'account', 'purpose', 'epoch')
local account = link[1]
if not account or link[2] ~= ARGV[2] then
  return ''
end
local base = prefix .. account .. ':'
local good = redis.call('EXISTS', base .. K.ACCOUNT) == 1
  and link[3] == (redis.call('HGET', base .. K.HOLDER, 'epoch') or '0')
local sessions = read_sessions(prefix, account, '')

redis.call('DEL', key)
if not good then
  return ''
end
if ARGV[3] ~= '' then
  redis.call('HSET', base .. K.HOLDER, 'password', ARGV[3])
  close_sessions(prefix, account, sessions)
end
open_session(prefix, account, ARGV[4], ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]))
return account
