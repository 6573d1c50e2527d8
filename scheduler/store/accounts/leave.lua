#!lua flags=allow-oom
-- Begins an account's deletion, in one step: from now on nobody finds it, its keys, sessions and
-- links are good for nothing, what waits is not fired, and what workers hold is theirs no more. Its
-- data is removed after this, bit by bit. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
-- Returns  {how many schedules had not ended, name, its other name ('': none), e-mail}; {} if there
--          is no such account
--@include accounts/session
local prefix, base = KEYS[1], KEYS[1] .. ARGV[1] .. ':'
local leaving = base .. K.LEAVING
if redis.call('EXISTS', base .. K.ACCOUNT) == 1 then
  redis.call('HLEN', base .. K.ACCOUNT)
  redis.call('ZCARD', prefix .. K.HEADS)
  local unended, sessions = redis.call('ZCARD', base .. K.WAITING), read_sessions(prefix, ARGV[1], '')

  redis.call('RENAME', base .. K.ACCOUNT, leaving)
  redis.call('HSET', leaving, 'unended', unended)
  close_sessions(prefix, ARGV[1], sessions)
  redis.call('ZADD', prefix .. K.HEADS, '-inf', ARGV[1])
  redis.call('UNLINK', base .. K.WAITING, base .. K.HELD)
end
if redis.call('EXISTS', leaving) == 0 then
  return {}
end
local about = redis.call('HMGET', leaving, 'unended', 'name', 'also', 'email')
return {tonumber(about[1]), about[2], about[3] or '', about[4]}
