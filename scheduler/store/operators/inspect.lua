#!lua flags=no-writes
-- How schedules of an account stand, each in all the places at one moment.
-- KEYS[1]  the account's prefix
-- ARGV     the schedules
-- Returns  {now (us), since when the oldest dead letter is one (ms; '': there is none), for each:
--          whether it is there, its outcome ('': not ended), when it is visible among the waiting
--          (ms; '': it is not there), whether it is among the held, the schedule that it was
--          replayed as (''), since when it is a dead letter (ms; '': it is none), when it will be
--          forgotten (ms; below 0: never), the attempt before the next ('': none), attempts used
--          ('': not noted); nine values, flat}
--@include now
local base = KEYS[1]
local found = {}
for _, schedule in ipairs(ARGV) do
  -- What is none of ours and has its name is as good as nothing.
  local stored = redis.pcall('HMGET', base .. K.SCHEDULE .. schedule, 'r', 'o', 'a', 'n')
  local n = #found
  found[n + 1] = stored[1] and 1 or 0
  found[n + 2] = stored[2] or ''
  found[n + 3] = redis.call('ZSCORE', base .. K.WAITING, schedule) or ''
  found[n + 4] = redis.call('ZSCORE', base .. K.HELD, schedule) and 1 or 0
  found[n + 5] = stored[3] or ''
  found[n + 6] = redis.call('ZSCORE', base .. K.FAILED, schedule) or ''
  found[n + 7] = redis.call('PEXPIRETIME', base .. K.SCHEDULE .. schedule)
  found[n + 8] = stored[4] or ''
  found[n + 9] = redis.call('HGET', base .. K.TRIED, schedule) or ''
end
local oldest = redis.call('ZRANGE', base .. K.FAILED, 0, 0, 'WITHSCORES')
return {now_us, oldest[2] or '', found}
