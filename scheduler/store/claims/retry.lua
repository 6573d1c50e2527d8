#!lua flags=allow-oom
-- Records attempts that failed and are to be made again: each schedule waits once more, for its next
-- attempt, with what the last one came to beside it and in a chunk of the log, in one step. An
-- account's are recorded together or not at all, as outcomes are. Safe to repeat: the first time
-- takes the leases away. What it writes neither ends nor counts as an execution.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  how long the log is kept (ms)
-- ARGV[2]  most log entries of an account
-- ARGV[3…] for each account: its name, how many schedules, chunk of log entries, a list with how many
--          strings it has before it (what the index notes and the digests of it), and for each
--          schedule: schedule, token, when the next attempt is due (ms), attempts made so far, packed
--          attempt, what is kept of what the target said ('': nothing)
-- Returns  {now (us), a code for each schedule}: 1 recorded, 0 recorded before or ended, -1 another
--          holds it, 2 not recorded because of the others: to be sent again without those
--@include now
--@include moment
--@include due
--@include claims/token
--@include claims/group
--@include log/append
local prefix = KEYS[1]
local ttl_ms, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local codes = {}

-- Whether this very attempt was recorded by a call whose reply was lost.
local function was_recorded(base, schedule, packed)
  local known = redis.call('HGET', base .. K.SCHEDULE .. schedule, 'n')
  return known and string.sub(known, 13) == packed
end

local function record(base, schedules, first, at)
  local failed_at, again, tried, earliest = moment(at), {}, {}, math.huge
  for i, schedule in ipairs(schedules) do
    local row, key = first + 6 * (i - 1), base .. K.SCHEDULE .. schedule
    local due, attempts, packed = tonumber(ARGV[row + 2]), ARGV[row + 3], ARGV[row + 4]
    redis.call('HSET', key, 'n', failed_at .. moment(due) .. packed)
    if ARGV[row + 5] == '' then
      redis.call('HDEL', key, 's')
    else
      redis.call('HSET', key, 's', ARGV[row + 5])
    end
    again[2 * i - 1], again[2 * i] = due, schedule
    tried[2 * i - 1], tried[2 * i] = schedule, attempts
    earliest = math.min(earliest, due)
  end
  redis.call('ZADD', base .. K.WAITING, unpack(again))
  redis.call('ZREM', base .. K.HELD, unpack(schedules))
  redis.call('HSET', base .. K.TRIED, unpack(tried))
  return earliest
end

local i = 3
while i <= #ARGV do
  local account, size, chunk = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local base, places = prefix .. account .. ':', nil
  places, i = list(i + 3)
  local schedules, found, all = judge(base, i, 6, size)
  if all then
    local at = append(base, chunk, size, places, ttl_ms, most)
    look_at(prefix, account, record(base, schedules, i, at))
  else
    for k, code in ipairs(found) do
      if code == -1 and was_recorded(base, schedules[k], ARGV[i + 6 * k - 2]) then
        found[k] = 0
      end
    end
  end
  tell(codes, found, all)
  i = i + 6 * size
end
return {now_us, codes}
