-- Sessions of an account. prefix: the shard's; account: its name there.

--@include shared/number
-- Reads, before the first write, all sessions but `kept` ('': all), and the epoch of the links.
local function read_sessions(prefix, account, kept)
  local base, closing = prefix .. account .. ':', {}
  for _, sha256 in ipairs(redis.call('ZRANGE', base .. K.SESSIONS, 0, -1)) do
    if sha256 ~= kept then
      closing[#closing + 1] = sha256
    end
  end
  return {closing = closing, epoch = added(base .. K.HOLDER, {'epoch'}, {1})}
end

local function close_some(prefix, account, sha256s)
  for _, sha256 in ipairs(sha256s) do
    redis.call('DEL', prefix .. K.SESSION .. sha256)
    redis.call('ZREM', prefix .. account .. ':' .. K.SESSIONS, sha256)
  end
end

local function close_sessions(prefix, account, read)
  close_some(prefix, account, read.closing)
  write(read.epoch)
end

-- Opens one; of more than `most`, closes those that end first. Callers read or count the sessions
-- before their first write.
local function open_session(prefix, account, sha256, csrf, ttl_ms, most)
  local sessions, key = prefix .. account .. ':' .. K.SESSIONS, prefix .. K.SESSION .. sha256
  local ends = now_ms + ttl_ms
  redis.call('HSET', key, 'account', account, 'csrf', csrf, 'ends', ends)
  redis.call('PEXPIRE', key, ttl_ms)
  redis.call('ZREMRANGEBYSCORE', sessions, '-inf', now_ms)
  redis.call('ZADD', sessions, ends, sha256)
  redis.call('PEXPIRE', sessions, ttl_ms)
  local over = redis.call('ZCARD', sessions) - most
  if over > 0 then
    close_some(prefix, account, redis.call('ZRANGE', sessions, 0, over - 1))
  end
end
