#!lua flags=allow-oom
-- Ends schedules, or attempts that are made again: what came of them, a chunk of the log, indexes,
-- statistics and credits, in one step. They come in groups of one account and one kind, which are
-- recorded as a whole or not at all: where one of a group cannot be, nothing of it is written, and the
-- caller repeats it without that one. A row names the score of its schedule in `waiting`, which the
-- first time takes away, so that a repeat does nothing: to a worker it is its lease (also one that has
-- ended, if nobody took it over), to an owner the moment when it is due. An account with a damaged key
-- is parked: claims pass it over until the store can record again, or a worker would fire its
-- schedules after each lease, for ever.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  how long an ended schedule is kept (ms)
-- ARGV[2]  how long log and statistics are kept (ms)
-- ARGV[3]  most log entries of an account
-- ARGV[4]  how long single seconds are kept (ms)
-- ARGV[5]  how long a failed schedule is kept (ms)
-- ARGV[6]  how long of that as a dead letter (ms)
-- ARGV[7]  most dead letters of an account
-- ARGV[8…] for each group: account, kind, how many rows, chunk of log entries, a list (what the index
--          notes, and the digests of it), more by kind, rows. A list has before it how many strings
--          it has.
--          kind `f`, fired, and `s`, stopped by the owner between two attempts, which ends it as the
--          last one did. More: how many completed and failed, total response time (ms), bytes of the
--          packed requests of those completed and of those failed, a list (buckets of the histograms,
--          by letter and number, and how many fires in each) and, if any failed, another (what
--          targets said to those: its row, what is kept of it, '' to forget what an attempt before
--          left). Row: schedule, score, packed outcome; of `s` also the request's SHA-1
--          kind `c`, cancelled by the owner before the first attempt, with the credit back. More:
--          bytes of what is kept of the requests, bytes that this is less than before. Row: schedule,
--          score, packed outcome, the request's SHA-1, what is kept of the request
--          kind `r`, to be tried again. Row: schedule, score, packed attempt, when the next one is due
--          (ms), attempts made so far, what is kept of what the target said ('': nothing)
-- Returns  {now (us), a verdict for each row}
--@include now
--@include moment
--@include lifecycle/place
--@include lifecycle/token
--@include ledger
--@include log/append
--@include log/count
--@include lifecycle/failed
--@include lifecycle/weight
local prefix = KEYS[1]
local kept_ms, ttl_ms, most, seconds_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local failed_kept_ms, failed_ms, most_failed = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local WIDTHS = {f = 3, s = 4, c = 5, r = 6}

-- Why a schedule is not at the score that its row names.
local function lost(queue, group, key, schedule, row, score)
  local by_owner = group.kind == 's' or group.kind == 'c'
  local stored = redis.pcall('HMGET', key .. schedule, 'r', 'o', 'n')
  if stored.err then
    return by_owner and V.DAMAGED or V.HELD
  elseif stored[2] then
    return V.ENDED
  elseif by_owner then
    local held = redis.call('ZSCORE', queue.held, schedule)
    return not (stored[1] and score) and V.UNKNOWN or held and V.HELD or V.CHANGED
  end
  -- This very attempt may have been recorded by a call whose reply was lost.
  local recorded = group.kind == 'r' and stored[3] and string.sub(stored[3], 13) == ARGV[row + 2]
  return recorded and V.ENDED or V.HELD
end

-- What speaks against a row of which the score is right. To look at every schedule that was fired would
-- cost more than all other reads: `end_fired` does without.
local function look(queue, group, key, schedule, row)
  if group.kind == 'f' then
    return V.DONE
  end
  local stored = redis.pcall('HMGET', key .. schedule, group.kind == 'r' and 'o' or 'r', 'n')
  if stored.err then
    return V.DAMAGED
  elseif group.kind == 'r' then
    return V.DONE
  elseif redis.call('ZSCORE', queue.held, schedule) then
    return V.HELD
  end
  local as_read = stored[1] and redis.sha1hex(stored[1]) == ARGV[row + 3]
  return as_read and (group.kind == 's') == (stored[2] ~= false) and V.DONE or V.CHANGED
end

-- The schedules of a group, a verdict for each, and whether all are DONE.
local function judge(queue, group, key)
  local schedules, found, all, width = {}, {}, true, WIDTHS[group.kind]
  for row = group.first, group.first + width * (group.size - 1), width do
    schedules[#schedules + 1] = ARGV[row]
  end
  local scores = redis.call('ZMSCORE', queue.waiting, unpack(schedules))
  for i, schedule in ipairs(schedules) do
    local row = group.first + width * (i - 1)
    local judged = names(ARGV[row + 1], scores[i]) and look or lost
    found[i] = judged(queue, group, key, schedule, row, scores[i])
    all = all and found[i] == V.DONE
  end
  return schedules, found, all
end

-- The weight (bytes) of all that targets said.
local function said_weight(said)
  local weight = 0
  for i = 2, #said, 2 do
    weight = weight + answer_weight(#said[i])
  end
  return weight
end

-- The dead letters of a group, as `note_failed` has them.
local function letters_of(group, schedules, at)
  local letters = {}
  for i, schedule in ipairs(schedules) do
    if has_failed(ARGV[group.first + WIDTHS[group.kind] * (i - 1) + 2]) then
      letters[#letters + 1], letters[#letters + 2] = at, schedule
    end
  end
  return letters
end

local function read_executions(plan, base, queue, group, schedules, hours)
  local said_bytes = said_weight(group.said)
  if said_bytes > 0 and redis.call('EXISTS', base .. K.ACCOUNT) == 1 then
    plan.bytes = added(base .. K.ACCOUNT, {'bytes'}, {said_bytes})
  end
  if redis.call('HLEN', queue.tried) > 0 then
    plan.used = redis.call('HMGET', queue.tried, unpack(schedules))
  end
  if group.completed > 0 then
    note_expiring(hours, weight_of(group.completed_bytes, group.completed), now_ms + kept_ms)
  end
  if group.failed > 0 then
    note_expiring(hours, weight_of(group.failed_bytes + said_bytes, group.failed),
      now_ms + failed_kept_ms)
    plan.letters = letters_of(group, schedules, plan.log.at)
    plan.trimmed = read_failed(base, #plan.letters / 2, plan.log.at, failed_ms, most_failed, kept_ms,
      hours)
  end
  plan.rollups = read_rollups(base, plan.log.at, {R.COMPLETED, group.completed, R.FAILED,
    group.failed, R.RESPONSE_TIME, group.response_ms}, group.spread)
end

-- Reads and checks everything that `record` writes, but for the schedules.
local function read(base, queue, group, schedules)
  check_queue(queue)
  local plan, hours = {log = read_log(base, group.size, group.chunk)}, {}
  if group.kind == 'r' then
    return plan
  elseif group.kind == 'c' then
    local count = group.size
    plan.bytes = added(base .. K.ACCOUNT, {'credits', 'spent', 'bytes'}, {count, -count, -group.less})
    plan.movement = moved_credits(base, 'refunded', count)
    note_expiring(hours, weight_of(group.kept_bytes, count), now_ms + kept_ms)
  else
    read_executions(plan, base, queue, group, schedules, hours)
  end
  plan.expiring = read_expiring(base, hours)
  return plan
end

-- Writes each schedule's outcome. These first writes are their own check: where one fails it undoes
-- those before it, and returns its place.
local function end_fired(key, group, schedules, ended_at)
  local width = WIDTHS[group.kind]
  for i, schedule in ipairs(schedules) do
    local name, outcome = key .. schedule, ARGV[group.first + width * (i - 1) + 2]
    if type(redis.pcall('HSET', name, 'o', ended_at .. outcome)) ~= 'number' then
      for n = 1, i - 1 do
        redis.call('HDEL', key .. schedules[n], 'o')
        redis.call('PERSIST', key .. schedules[n])
      end
      return i
    end
    redis.call('PEXPIRE', name, has_failed(outcome) and failed_kept_ms or kept_ms)
  end
  return nil
end

local function end_cancelled(key, group, schedules, ended_at)
  for i, schedule in ipairs(schedules) do
    local row, name = group.first + 5 * (i - 1), key .. schedule
    redis.call('HSET', name, 'r', ARGV[row + 4], 'o', ended_at .. ARGV[row + 2])
    redis.call('PEXPIRE', name, kept_ms)
  end
end

local function note_said(name, said)
  if said == '' then
    redis.call('HDEL', name, 's')
  else
    redis.call('HSET', name, 's', said)
  end
end

local function try_again(queue, key, group, schedules, failed_at)
  local due, tried, earliest = {}, {}, math.huge
  for i, schedule in ipairs(schedules) do
    local row, name = group.first + 6 * (i - 1), key .. schedule
    local due_ms = tonumber(ARGV[row + 3])
    redis.call('HSET', name, 'n', failed_at .. moment(due_ms) .. ARGV[row + 2])
    note_said(name, ARGV[row + 5])
    due[2 * i - 1], due[2 * i] = due_ms, schedule
    tried[2 * i - 1], tried[2 * i] = schedule, ARGV[row + 4]
    earliest = math.min(earliest, due_ms)
  end
  put_back(queue, schedules, due, tried, {}, earliest)
end

-- What attempts before left goes: what was said stays of those that failed, and was noted of the last.
local function forget_attempts(key, group, schedules, used)
  local width = WIDTHS[group.kind]
  for i, schedule in ipairs(schedules) do
    if used[i] then
      local failed = has_failed(ARGV[group.first + width * (i - 1) + 2])
      redis.call('HDEL', key .. schedule, 'n', failed and 'n' or 's')
    end
  end
end

local function record_executions(plan, base, key, group, schedules)
  for i = 1, #group.said, 2 do
    note_said(key .. schedules[tonumber(group.said[i])], group.said[i + 1])
  end
  if plan.trimmed then
    note_failed(base, plan.letters, plan.trimmed, failed_ms)
  end
  if plan.used then
    forget_attempts(key, group, schedules, plan.used)
  end
  count(plan.rollups, ttl_ms, seconds_ms)
end

local function record(group)
  local base, queue = prefix .. group.account .. ':', queue_of(prefix, group.account)
  local key = base .. K.SCHEDULE
  local schedules, found, all = judge(queue, group, key)
  if not all then
    return found
  end
  local plan = read(base, queue, group, schedules)
  local ended_at = moment(plan.log.at)
  if group.kind == 'r' then
    try_again(queue, key, group, schedules, ended_at)
  elseif group.kind == 'c' then
    end_cancelled(key, group, schedules, ended_at)
  else
    local damaged = end_fired(key, group, schedules, ended_at)
    if damaged then
      found[damaged] = V.DAMAGED
      return found
    end
    record_executions(plan, base, key, group, schedules)
  end
  append(base, plan.log, group.chunk, group.size, group.places, ttl_ms, most)
  if plan.bytes then
    write(plan.bytes)
  end
  if plan.movement then
    write(plan.movement, ttl_ms)
  end
  if plan.expiring then
    write(plan.expiring)
    take_out(queue, schedules)
  end
  return found
end

-- Adds a group's verdicts to all: where not every row can be recorded, none is.
local function settle(verdicts, group)
  local sound, found = pcall(record, group)
  if not sound then
    -- If `parked` itself is damaged, the schedules wait for the end of their leases only.
    redis.pcall('ZADD', prefix .. K.PARKED, now_ms, group.account)
    found = {}
  end
  local all = true
  for i = 1, group.size do
    all = all and found[i] == V.DONE
  end
  for i = 1, group.size do
    local verdict = found[i] or V.DAMAGED
    verdicts[#verdicts + 1] = (verdict == V.DONE and not all) and V.AGAIN or verdict
  end
end

-- The list whose length stands at `i` of the arguments, and where what follows it begins.
local function list(i)
  local values = {}
  for k = i + 1, i + ARGV[i] do
    values[#values + 1] = ARGV[k]
  end
  return values, i + 1 + #values
end

check_heads(prefix)
local verdicts, i = {}, 8
while i <= #ARGV do
  local group = {account = ARGV[i], kind = ARGV[i + 1], size = tonumber(ARGV[i + 2]),
    chunk = ARGV[i + 3], said = {}}
  group.places, i = list(i + 4)
  if group.kind == 'c' then
    group.kept_bytes, group.less = ARGV[i], ARGV[i + 1]
    i = i + 2
  elseif group.kind ~= 'r' then
    group.completed, group.failed = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
    group.response_ms, group.completed_bytes, group.failed_bytes = ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
    group.spread, i = list(i + 5)
    if group.failed > 0 then
      group.said, i = list(i)
    end
  end
  group.first = i
  settle(verdicts, group)
  i = i + WIDTHS[group.kind] * group.size
end
return {now_us, verdicts}
