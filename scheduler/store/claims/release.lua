#!lua flags=allow-oom
-- Gives back what was claimed and not started: due as it was before, the attempt not used.
-- Safe to repeat: the first time takes the lease away.
-- KEYS[1]  the shard's prefix
-- ARGV     for each schedule: account, schedule, token, when it is due (ms), attempts used before
-- Returns  {now (us), a code for each}: 1 given back, 0 no longer held by this token
--@include now
--@include due
--@include claims/token
local prefix = KEYS[1]
local codes = {}
for i = 1, #ARGV, 5 do
  local account, schedule = ARGV[i], ARGV[i + 1]
  local base = prefix .. account .. ':'
  local waiting, held_set, tried = base .. K.WAITING, base .. K.HELD, base .. K.TRIED
  local held = names(ARGV[i + 2], redis.call('ZSCORE', waiting, schedule))
  if held then
    if ARGV[i + 4] == '0' then
      redis.call('HDEL', tried, schedule)
    else
      redis.call('HSET', tried, schedule, ARGV[i + 4])
    end
    redis.call('ZREM', held_set, schedule)
    redis.call('ZADD', waiting, ARGV[i + 3], schedule)
    look_at(prefix, account, tonumber(ARGV[i + 3]))
  end
  codes[#codes + 1] = held and 1 or 0
end
return {now_us, codes}
