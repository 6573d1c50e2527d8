#!lua flags=allow-oom
-- Records attempts of callbacks: the next one is due, or it has ended, and from then on the ended
-- schedule is kept as long as others are from their end on. Safe to repeat: a row names its lease,
-- which the first call takes away. An account with a damaged key is parked, as by `end`.
-- KEYS[1]  the shard's prefix
-- ARGV     how long an ended schedule is kept (ms), how long a failed one is (ms)
-- ARGV[3…] for each: account, schedule, token, letter of its state, the packed rest, when the next
--          attempt is due (ms; '': it has ended), the schedule as a member of `failed`
-- Returns  {now (us), a verdict for each}: DONE, ENDED (before), HELD: by another worker, DAMAGED
--@include now
--@include moment
--@include lifecycle/place
--@include lifecycle/token
--@include lifecycle/failed
--@include lifecycle/weight
--@include lifecycle/callbacks
local prefix, kept_ms, failed_kept_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])

-- The verdict on a row whose token does not hold its schedule.
local function judge_lost(stored, row)
  local state = type(stored[2]) == 'string' and stored[2]
  local is_done = not state or string.sub(state, 1, 1) ~= 'p'
    or string.sub(state, 8) == ARGV[row + 4] -- by a call whose reply was lost
  return is_done and V.ENDED or V.HELD
end

-- How long a schedule is kept whose callback ends, and what of `expiring` that changes.
local function plan_end(queue, key, outcome, letter)
  local has_failed = has_failed(string.sub(outcome, 7))
  local is_letter = has_failed and redis.call('ZSCORE', queue.base .. K.FAILED, letter)
  local forgotten_ms, hours = now_ms + (is_letter and failed_kept_ms or kept_ms), {}
  note_expiring(hours, stored_weight(key) + (has_failed and letter_weight(letter) or 0),
    forgotten_ms)
  return forgotten_ms, read_expiring(queue.base, hours)
end

local function record(row)
  local queue, schedule = callbacks_of(prefix, ARGV[row]), ARGV[row + 1]
  local key, due_ms = queue.base .. K.SCHEDULE .. schedule, tonumber(ARGV[row + 5])
  check_callbacks(queue)
  local there = names(ARGV[row + 2], redis.call('ZSCORE', queue.pending, schedule))
  local stored = redis.call('HMGET', key, 'o', 'c')
  if not there then
    return judge_lost(stored, row)
  end
  local forgotten_ms, expiring = nil, nil
  if stored[1] and not due_ms then
    forgotten_ms, expiring = plan_end(queue, key, stored[1], ARGV[row + 6])
  end
  if stored[1] then
    redis.call('HSET', key, 'c', ARGV[row + 3] .. moment(now_ms) .. ARGV[row + 4])
  end
  if stored[1] and due_ms then
    await_callbacks(queue, {schedule}, {due_ms, schedule})
  else
    take_out_callbacks(queue, {schedule})
  end
  if expiring then
    redis.call('PEXPIREAT', key, whole(forgotten_ms))
    write(expiring)
  end
  return V.DONE
end

local verdicts = {}
for row = 3, #ARGV, 7 do
  local sound, verdict = pcall(record, row)
  if not sound then
    redis.pcall('ZADD', prefix .. K.PARKED, now_ms, ARGV[row])
  end
  verdicts[#verdicts + 1] = sound and verdict or V.DAMAGED
end
return {now_us, verdicts}
