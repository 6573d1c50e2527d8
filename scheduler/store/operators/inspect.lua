#!lua flags=no-writes
-- How schedules of an account stand, each in all the places at one moment.
-- KEYS[1]  the account's prefix
-- ARGV     the schedules
-- Returns  {now (us), for each: whether it is there, its outcome ('': not ended), when it is visible
--          among the waiting (ms; '': it is not there), whether it is among the held, the attempt
--          before the next ('': none), attempts used ('': not noted); six values, flat}
--@include now
local base = KEYS[1]
local found = {}
for _, schedule in ipairs(ARGV) do
  local stored = redis.call('HMGET', base .. K.SCHEDULE .. schedule, 'r', 'o', 'a')
  local n = #found
  found[n + 1] = stored[1] and 1 or 0
  found[n + 2] = stored[2] or ''
  found[n + 3] = redis.call('ZSCORE', base .. K.WAITING, schedule) or ''
  found[n + 4] = redis.call('ZSCORE', base .. K.HELD, schedule) and 1 or 0
  found[n + 5] = stored[3] or ''
  found[n + 6] = redis.call('HGET', base .. K.TRIED, schedule) or ''
end
return {now_us, found}
