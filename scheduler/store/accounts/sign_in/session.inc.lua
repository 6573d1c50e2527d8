-- Sessions of a member. prefix: the shard's; account: its name there; member: its id, '' for those
-- who came by an operator's link.

--@include shared/number
-- Reads, before the first write, all sessions but `kept` ('': all), and the epoch of the links.
local function read_sessions(prefix, account, member, kept)
  local base, closing = prefix .. account .. ':', {}
  for _, sha256 in ipairs(redis.call('ZRANGE', base .. K.SESSIONS .. member, 0, -1)) do
    if sha256 ~= kept then
      closing[#closing + 1] = sha256
    end
  end
  return {closing = closing, epoch = added(base .. K.MEMBER .. member, {'epoch'}, {1})}
end

local function close_some(prefix, account, member, sha256s)
  for _, sha256 in ipairs(sha256s) do
    redis.call('DEL', prefix .. K.SESSION .. sha256)
    redis.call('ZREM', prefix .. account .. ':' .. K.SESSIONS .. member, sha256)
  end
end

local function close_sessions(prefix, account, member, read)
  close_some(prefix, account, member, read.closing)
  write(read.epoch)
end

-- Whether one can sign in so: as the account, or as a member who has accepted the invitation.
local function may_sign_in(base, member)
  if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
    return false
  end
  local email, invited = unpack(redis.call('HMGET', base .. K.MEMBER .. member, 'email', 'until'))
  return member == '' or (email and not invited)
end

-- Opens one; of more than `most`, closes those that end first. Callers read or count the sessions
-- before their first write.
local function open_session(prefix, account, member, sha256, csrf, ttl_ms, most)
  local sessions = prefix .. account .. ':' .. K.SESSIONS .. member
  local key, ends = prefix .. K.SESSION .. sha256, now_ms + ttl_ms
  redis.call('HSET', key, 'account', account, 'member', member, 'csrf', csrf, 'ends', ends)
  redis.call('PEXPIRE', key, ttl_ms)
  redis.call('ZREMRANGEBYSCORE', sessions, '-inf', now_ms)
  redis.call('ZADD', sessions, ends, sha256)
  redis.call('PEXPIRE', sessions, ttl_ms)
  local over = redis.call('ZCARD', sessions) - most
  if over > 0 then
    close_some(prefix, account, member, redis.call('ZRANGE', sessions, 0, over - 1))
  end
end
