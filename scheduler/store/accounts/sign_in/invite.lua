#!lua flags=allow-oom
-- Invites somebody to an account, by a one-time link. An earlier invitation to the same address is
-- void. Safe to repeat with the same member.
-- KEYS[1]  the shard's prefix
-- ARGV     account, member, SHA-256 of the link's secret, e-mail, role, how long the link is good
--          (ms), most members and invitations together, who invites
-- Returns  1 invited (now or before), 0 no such account, -1 the address is a member's, -2 too many
--@include shared/now
--@include events/note
local prefix, base = KEYS[1], KEYS[1] .. ARGV[1] .. ':'
local about, link = base .. K.MEMBER .. ARGV[2], prefix .. K.LINK .. ARGV[3]
local ttl_ms = tonumber(ARGV[6])
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return 0
end
if redis.call('EXISTS', link) == 1 then
  return 1
end
local members = redis.call('ZRANGE', base .. K.MEMBERS, 0, -1)
for _, member in ipairs(members) do
  if redis.call('HGET', base .. K.MEMBER .. member, 'email') == ARGV[4] then
    return -1
  end
end
local invited, earlier = redis.call('ZRANGE', base .. K.INVITED, 0, -1), {}
for _, member in ipairs(invited) do
  local email, sha256 = unpack(redis.call('HMGET', base .. K.MEMBER .. member, 'email', 'link'))
  if not email or email == ARGV[4] then -- it has ended, or is to be replaced
    earlier[#earlier + 1] = {member, sha256 or ''}
  end
end
if #members + #invited - #earlier >= tonumber(ARGV[7]) then
  return -2
end

for _, each in ipairs(earlier) do
  redis.call('ZREM', base .. K.INVITED, each[1])
  redis.call('DEL', base .. K.MEMBER .. each[1], prefix .. K.LINK .. each[2])
end
redis.call('HSET', about, 'email', ARGV[4], 'role', ARGV[5], 'until', now_ms + ttl_ms,
  'link', ARGV[3])
redis.call('PEXPIRE', about, ttl_ms)
redis.call('ZADD', base .. K.INVITED, now_ms + ttl_ms, ARGV[2])
redis.call('HSET', link, 'account', ARGV[1], 'member', ARGV[2], 'purpose', 'invite', 'epoch', '0',
  'by', ARGV[8])
redis.call('PEXPIRE', link, ttl_ms)
note_own(base, {k = 'member-invited', w = ARGV[8], t = ARGV[4] .. ', ' .. ARGV[5]})
return 1
