#!lua flags=allow-oom
-- Closes one session of a member, or all of them. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, member, SHA-256 of the session's secret; '': all, and links not yet used are
--          void; who signs out, for the account's history
--@include shared/now
--@include accounts/sign_in/session
--@include events/note
local prefix, account, member = KEYS[1], ARGV[1], ARGV[2]
local base = prefix .. account .. ':'
if ARGV[3] ~= '' then
  redis.call('ZCARD', base .. K.SESSIONS .. member)
  redis.call('DEL', prefix .. K.SESSION .. ARGV[3])
  redis.call('ZREM', base .. K.SESSIONS .. member, ARGV[3])
elseif may_sign_in(base, member) then
  local sessions = read_sessions(prefix, account, member, '')
  close_sessions(prefix, account, member, sessions)
  if #sessions.closing > 0 then
    note_own(base, {k = 'signed-out', w = ARGV[4]})
  end
end
return 1
