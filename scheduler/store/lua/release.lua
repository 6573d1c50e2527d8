#!lua flags=allow-oom
-- Gives back what was claimed and not started: due at its triggerAt again, the attempt not used.
-- Safe to repeat: the token goes with the first time.
-- KEYS[1]  the shard's prefix
-- ARGV     for each schedule: account, schedule, token, triggerAt (ms), attempts used before
-- Returns  {now (us), a code for each}: 1 given back, 0 no longer held by this token
--@include now
local prefix = KEYS[1]
local codes = {}
for i = 1, #ARGV, 5 do
  local account, schedule = ARGV[i], ARGV[i + 1]
  local base = prefix .. account .. ':'
  local key = base .. 's:' .. schedule
  local held = redis.call('HGET', key, 't') == ARGV[i + 2]
  if held then
    if ARGV[i + 4] == '0' then
      redis.call('HDEL', key, 't', 'n')
    else
      redis.call('HDEL', key, 't')
      redis.call('HSET', key, 'n', ARGV[i + 4])
    end
    redis.call('ZREM', base .. 'held', schedule)
    redis.call('ZADD', base .. 'waiting', ARGV[i + 3], schedule)
    redis.call('ZADD', prefix .. 'heads', 'LT', math.max(tonumber(ARGV[i + 3]), now_ms), account)
  end
  codes[#codes + 1] = held and 1 or 0
end
return {now_us, codes}
