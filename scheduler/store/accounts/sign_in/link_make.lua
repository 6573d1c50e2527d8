#!lua flags=allow-oom
-- Makes a one-time link, which replaces the member's earlier one. Safe to repeat: the same link is
-- made once.
-- KEYS[1]  the shard's prefix
-- ARGV     account, member ('': the account itself), SHA-256 of the link's secret, what it is for,
--          how long it is good (ms), who makes it
-- Returns  1 made (now or before), 0 no such account or member
--@include shared/now
--@include accounts/sign_in/session
--@include events/note
local base, key = KEYS[1] .. ARGV[1] .. ':', KEYS[1] .. K.LINK .. ARGV[3]
local member = base .. K.MEMBER .. ARGV[2]
if not may_sign_in(base, ARGV[2]) then
  return 0
end
redis.call('HLEN', key)  -- raises if it is damaged
local epoch, earlier, email = unpack(redis.call('HMGET', member, 'epoch', 'link', 'email'))
if ARGV[2] ~= '' then
  if earlier and earlier ~= ARGV[3] then
    redis.call('DEL', KEYS[1] .. K.LINK .. earlier)
  end
  redis.call('HSET', member, 'link', ARGV[3])
end
redis.call('HSET', key, 'account', ARGV[1], 'member', ARGV[2], 'purpose', ARGV[4],
  'epoch', epoch or '0', 'by', ARGV[6])
redis.call('PEXPIRE', key, ARGV[5])
if ARGV[2] ~= '' and earlier ~= ARGV[3] then
  note_own(base, {k = 'password-link', w = ARGV[6], t = email})
end
return 1
