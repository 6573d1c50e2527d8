#!lua flags=allow-oom
-- Records outcomes: the schedules' end, a chunk of the log, the indexes and the statistics, in one
-- step. They come by account, and an account's are recorded together or not at all: where one is
-- not held by its token any more, nothing of that account is written, and the caller repeats it
-- without that one. Safe to repeat: the first time takes the leases away. A lease that has ended
-- and that nobody took over is still acked. An account with a damaged key is parked.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  how long an ended schedule is kept (ms)
-- ARGV[2]  how long log and statistics are kept (ms)
-- ARGV[3]  most log entries of an account
-- ARGV[4]  how long single seconds are kept (ms)
-- ARGV[5]  how long a failed schedule is kept (ms)
-- ARGV[6]  how long of that as a dead letter (ms)
-- ARGV[7]  most dead letters of an account
-- ARGV[8…] for each account: its name, how many schedules, chunk of log entries, completed, failed,
--          total response time (ms), bytes of the packed requests of those completed, of those
--          failed (nobody changes what is held), two lists with how many strings each has before it
--          (buckets of the histograms, by letter and number, and how many fires in each; what the
--          index notes and the digests of it), if any failed a third (what targets said to those: its
--          place among the schedules, what is kept of it, '' to forget what an attempt before left),
--          and for each schedule: schedule, token, packed outcome
-- Returns  {now (us), a code for each schedule}: 1 recorded, 0 had ended before, -1 another holds
--          it, -2 not recorded because it, or a key of its account, is damaged, 2 not recorded because
--          of the others: to be sent again without those
--@include now
--@include moment
--@include lifecycle/place
--@include lifecycle/token
--@include lifecycle/parked
--@include lifecycle/group
--@include log/append
--@include log/count
--@include lifecycle/failed
--@include lifecycle/weight
local prefix = KEYS[1]
local ttl_ms, most, seconds_ms = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local codes = {}

-- Notes when these schedules are forgotten: failed ones later than completed ones.
local function note_ends(hours, group, said_bytes)
  if group.completed > 0 then
    note_expiring(hours, weight_of(group.completed_bytes, group.completed), now_ms + ARGV[1])
  end
  if group.failed > 0 then
    note_expiring(hours, weight_of(group.failed_bytes + said_bytes, group.failed), now_ms + ARGV[5])
  end
end

-- The weight (bytes) of all that targets said.
local function said_weight(said)
  local weight = 0
  for i = 2, #said, 2 do
    weight = weight + answer_weight(#said[i])
  end
  return weight
end

local function note_said(key, schedules, said)
  for i = 1, #said, 2 do
    local schedule = schedules[tonumber(said[i])]
    if said[i + 1] == '' then
      redis.call('HDEL', key .. schedule, 's')
    else
      redis.call('HSET', key .. schedule, 's', said[i + 1])
    end
  end
end

-- Of those that have had several; retried ones are among them. What completed leaves nothing that was
-- said before.
local function forget_attempts(base, group, schedules, used)
  for i, schedule in ipairs(schedules) do
    if used[i] then
      local failed = has_failed(ARGV[group.first + 3 * i - 1])
      redis.call('HDEL', base .. K.SCHEDULE .. schedule, 'n', failed and 'n' or 's')
    end
  end
end

-- The dead letters among an account's schedules, as `note_failed` has them.
local function letters_of(group, schedules, at)
  local letters = {}
  for i, schedule in ipairs(schedules) do
    if has_failed(ARGV[group.first + 3 * i - 1]) then
      letters[#letters + 1], letters[#letters + 2] = at, schedule
    end
  end
  return letters
end

-- Reads and checks everything that `record` writes, but for the schedules.
local function read(base, queue, group, schedules)
  local plan, hours = {}, {}
  redis.call('ZCARD', queue.held)
  plan.log = read_log(base, group.size, group.chunk)
  if redis.call('HLEN', queue.tried) > 0 then
    plan.used = redis.call('HMGET', queue.tried, unpack(schedules))
  end
  local said_bytes = said_weight(group.said)
  if said_bytes > 0 and redis.call('EXISTS', base .. K.ACCOUNT) == 1 then
    plan.bytes = added(base .. K.ACCOUNT, {'bytes'}, {said_bytes})
  end
  if group.failed > 0 then
    plan.letters = letters_of(group, schedules, plan.log.at)
    plan.trimmed = read_failed(base, #plan.letters / 2, plan.log.at, tonumber(ARGV[6]),
      tonumber(ARGV[7]), tonumber(ARGV[1]), hours)
  end
  note_ends(hours, group, said_bytes)
  plan.expiring = read_expiring(base, hours)
  plan.rollups = read_rollups(base, plan.log.at, group.sums, group.spread)
  return plan
end

-- Writes each schedule's outcome. To read each of their keys before would cost more than all other
-- reads, so these first writes are their own check: where one fails it undoes those before it, and
-- returns its place.
local function end_schedules(key, group, schedules, ended_at)
  for i, schedule in ipairs(schedules) do
    local name, outcome = key .. schedule, ARGV[group.first + 3 * i - 1]
    if type(redis.pcall('HSET', name, 'o', ended_at .. outcome)) ~= 'number' then
      for n = 1, i - 1 do
        redis.call('HDEL', key .. schedules[n], 'o')
        redis.call('PERSIST', key .. schedules[n])
      end
      return i
    end
    redis.call('PEXPIRE', name, has_failed(outcome) and ARGV[5] or ARGV[1])
  end
  return nil
end

local function record(group)
  local base, queue = prefix .. group.account .. ':', queue_of(prefix, group.account)
  local key = base .. K.SCHEDULE
  local schedules, found, all = judge(base, group.first, 3, group.size)
  if not all then
    return found, false
  end
  local plan = read(base, queue, group, schedules)
  local damaged = end_schedules(key, group, schedules, moment(plan.log.at))
  if damaged then
    found[damaged] = -2
    return found, false
  end
  append(base, plan.log, group.chunk, group.size, group.places, ttl_ms, most)
  note_said(key, schedules, group.said)
  if plan.bytes then
    write(plan.bytes)
  end
  if plan.trimmed then
    note_failed(base, plan.letters, plan.trimmed, ARGV[6])
  end
  write(plan.expiring)
  take_out(queue, schedules)
  if plan.used then
    forget_attempts(base, group, schedules, plan.used)
  end
  count(plan.rollups, ttl_ms, seconds_ms)
  return found, true
end

local i = 8
while i <= #ARGV do
  local group = {account = ARGV[i], size = tonumber(ARGV[i + 1]), chunk = ARGV[i + 2],
    completed = tonumber(ARGV[i + 3]), failed = tonumber(ARGV[i + 4]),
    sums = {R.COMPLETED, ARGV[i + 3], R.FAILED, ARGV[i + 4], R.RESPONSE_TIME, ARGV[i + 5]},
    completed_bytes = ARGV[i + 6], failed_bytes = ARGV[i + 7], said = {}}
  group.spread, i = list(i + 8)
  group.places, i = list(i)
  if group.failed > 0 then
    group.said, i = list(i)
  end
  group.first = i
  settle_account(codes, prefix, group.account, group.size, function() return record(group) end)
  i = i + 3 * group.size
end
return {now_us, codes}
