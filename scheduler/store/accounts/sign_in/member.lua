#!lua flags=allow-oom
-- Gives a member another role, or removes a member or an invitation. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, member, the role ('': remove), '1' if an owner must be left, who does it
-- Returns  1 done (now or before), 0 no such account, -1 it is the last owner
--@include shared/now
--@include accounts/sign_in/session
--@include events/note
local prefix, base, role = KEYS[1], KEYS[1] .. ARGV[1] .. ':', ARGV[3]
local about = base .. K.MEMBER .. ARGV[2]
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return 0
end
local email, before, invited, link = unpack(
  redis.call('HMGET', about, 'email', 'role', 'until', 'link'))
if not email or before == role then
  return 1
end
local owners = 0
for _, member in ipairs(redis.call('ZRANGE', base .. K.MEMBERS, 0, -1)) do
  if redis.call('HGET', base .. K.MEMBER .. member, 'role') == 'own' then
    owners = owners + 1
  end
end
if ARGV[4] == '1' and before == 'own' and not invited and owners < 2 then
  return -1
end
redis.call('ZCARD', base .. K.INVITED)
local sessions = redis.call('ZRANGE', base .. K.SESSIONS .. ARGV[2], 0, -1)

if role ~= '' then
  redis.call('HSET', about, 'role', role)
  note_own(base, {k = 'member-role', w = ARGV[5], t = email .. ', ' .. role})
  return 1
end
close_some(prefix, ARGV[1], ARGV[2], sessions)
if link then
  redis.call('DEL', prefix .. K.LINK .. link)
end
redis.call('DEL', about, base .. K.SESSIONS .. ARGV[2])
redis.call('ZREM', base .. K.MEMBERS, ARGV[2])
redis.call('ZREM', base .. K.INVITED, ARGV[2])
note_own(base, {k = 'member-removed', w = ARGV[5], t = email})
return 1
