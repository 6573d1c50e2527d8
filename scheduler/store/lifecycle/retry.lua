#!lua flags=allow-oom
-- Records attempts that failed and are to be made again: each schedule waits once more, for its next
-- attempt, with what the last one came to beside it and in a chunk of the log, in one step. An
-- account's are recorded together or not at all, as outcomes are. Safe to repeat: the first time
-- takes the leases away. What it writes neither ends nor counts as an execution. An account with a
-- damaged key is parked.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  how long the log is kept (ms)
-- ARGV[2]  most log entries of an account
-- ARGV[3…] for each account: its name, how many schedules, chunk of log entries, a list with how many
--          strings it has before it (what the index notes and the digests of it), and for each
--          schedule: schedule, token, when the next attempt is due (ms), attempts made so far, packed
--          attempt, what is kept of what the target said ('': nothing)
-- Returns  {now (us), a code for each schedule}: 1 recorded, 0 recorded before or ended, -1 another
--          holds it, -2 not recorded because it, or a key of its account, is damaged, 2 not
--          recorded because of the others: to be sent again without those
--@include now
--@include moment
--@include lifecycle/place
--@include lifecycle/token
--@include lifecycle/parked
--@include lifecycle/group
--@include log/append
local prefix = KEYS[1]
local ttl_ms, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local codes = {}
check_heads(prefix)

-- Whether this very attempt was recorded by a call whose reply was lost.
local function was_recorded(base, schedule, packed)
  local known = redis.pcall('HGET', base .. K.SCHEDULE .. schedule, 'n')
  return type(known) == 'string' and string.sub(known, 13) == packed
end

-- The codes where not all are held by their tokens: some may have been recorded before.
local function repeated(base, schedules, found, first)
  for i, code in ipairs(found) do
    if code == -1 and was_recorded(base, schedules[i], ARGV[first + 6 * i - 2]) then
      found[i] = 0
    end
  end
  return found, false
end

local function wait_again(queue, base, schedules, first, at)
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
  put_back(queue, schedules, again, tried, {}, earliest)
end

local function record(group)
  local base, queue = prefix .. group.account .. ':', queue_of(prefix, group.account)
  local schedules, found, all = judge(base, group.first, 6, group.size)
  if not all then
    return repeated(base, schedules, found, group.first)
  end
  for i, schedule in ipairs(schedules) do
    if type(redis.pcall('HLEN', base .. K.SCHEDULE .. schedule)) ~= 'number' then
      found[i] = -2
      return found, false
    end
  end
  check_queue(queue)
  local log = read_log(base, group.size, group.chunk)
  append(base, log, group.chunk, group.size, group.places, ttl_ms, most)
  wait_again(queue, base, schedules, group.first, log.at)
  return found, true
end

local i = 3
while i <= #ARGV do
  local group = {account = ARGV[i], size = tonumber(ARGV[i + 1]), chunk = ARGV[i + 2]}
  group.places, group.first = list(i + 3)
  settle_account(codes, prefix, group.account, group.size, function() return record(group) end)
  i = group.first + 6 * group.size
end
return {now_us, codes}
