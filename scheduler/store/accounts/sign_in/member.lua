#!lua flags=allow-oom
-- Gives a member another role, or removes a member or an invitation. Links are void that were made
-- by somebody who is no owner any more. Safe to repeat.
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
-- Of these members or invitations, {id, e-mail, link} of those whose link this member made.
local function linked_by_them(names)
  local found = {}
  for _, member in ipairs(names) do
    local to, sha256 = unpack(redis.call('HMGET', base .. K.MEMBER .. member, 'email', 'link'))
    if sha256 and redis.call('HGET', prefix .. K.LINK .. sha256, 'by') == email then
      found[#found + 1] = {member, to, sha256}
    end
  end
  return found
end
local owners, members = 0, redis.call('ZRANGE', base .. K.MEMBERS, 0, -1)
for _, member in ipairs(members) do
  if redis.call('HGET', base .. K.MEMBER .. member, 'role') == 'own' then
    owners = owners + 1
  end
end
if ARGV[4] == '1' and before == 'own' and not invited and owners < 2 then
  return -1
end
local links, invitations = {}, {}
if before == 'own' and not invited then
  links = linked_by_them(members)
  invitations = linked_by_them(redis.call('ZRANGE', base .. K.INVITED, 0, -1))
end
redis.call('ZCARD', base .. K.INVITED)
local sessions = redis.call('ZRANGE', base .. K.SESSIONS .. ARGV[2], 0, -1)

for _, each in ipairs(links) do
  redis.call('DEL', prefix .. K.LINK .. each[3])
end
for _, each in ipairs(invitations) do
  redis.call('DEL', prefix .. K.LINK .. each[3], base .. K.MEMBER .. each[1])
  redis.call('ZREM', base .. K.INVITED, each[1])
  note_own(base, {k = 'member-removed', w = ARGV[5], t = each[2]})
end
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
