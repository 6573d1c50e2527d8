#!lua flags=no-writes
-- How schedules of an account stand, each in all the places at one moment.
-- KEYS[1]  the account's prefix
-- ARGV     the schedules
-- Returns  for each: whether it is there, its status ('': not ended), its token ('': not held),
--          whether it is among the waiting, whether among the held; five values, flat
local base = KEYS[1]
local found = {}
for _, schedule in ipairs(ARGV) do
  local stored = redis.call('HMGET', base .. 's:' .. schedule, 'r', 's', 't')
  local n = #found
  found[n + 1] = stored[1] and 1 or 0
  found[n + 2] = stored[2] or ''
  found[n + 3] = stored[3] or ''
  found[n + 4] = redis.call('ZSCORE', base .. 'waiting', schedule) and 1 or 0
  found[n + 5] = redis.call('ZSCORE', base .. 'held', schedule) and 1 or 0
end
return found
