#!lua flags=allow-oom
-- Records attempts of callbacks: the next one is due, or it has ended, and from then on the ended
-- schedule is kept as long as others are from their end on, without the target's answer if the
-- callback is delivered. Safe to repeat: a row names its lease, which the first call takes away.
-- An account with a damaged key is parked, as by `end`.
-- KEYS[1]  the shard's prefix
-- ARGV     how long an ended schedule is kept (ms), how long a failed one is (ms), how many failed
--          callbacks an account's list has at most
-- ARGV[4…] for each: account, schedule, token, letter of its state, the packed rest, when the next
--          attempt is due (ms; '': it has ended), the schedule as a member of `failed`
-- Returns  {now (us), a verdict for each}: DONE, ENDED (before), HELD: by another worker, UNKNOWN:
--          its account is gone, DAMAGED
--@include shared/now
--@include shared/moment
--@include lifecycle/row/place
--@include lifecycle/row/token
--@include lifecycle/row/failed
--@include lifecycle/row/weight
--@include lifecycle/callback/callbacks
local prefix, kept_ms, failed_kept_ms = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local most_failed = tonumber(ARGV[3])

-- The verdict on a row whose token does not hold its schedule.
local function judge_lost(queue, stored, row)
  local state = type(stored[2]) == 'string' and stored[2]
  local is_done = not state or string.sub(state, 1, 1) ~= 'p'
    or string.sub(state, 8) == ARGV[row + 4] -- by a call whose reply was lost
  return is_done and V.ENDED
    or redis.call('EXISTS', queue.base .. K.ACCOUNT) == 1 and V.HELD or V.UNKNOWN
end

-- When a schedule is forgotten whose callback ends (ms); `hours` gets its weight, which is `more`
-- than before this attempt.
local function forgotten_at(queue, key, outcome, letter, more, hours)
  local has_failed = has_failed(string.sub(outcome, 7))
  local is_letter = has_failed and redis.call('ZSCORE', queue.base .. K.FAILED, letter)
  local forgotten_ms = now_ms + (is_letter and failed_kept_ms or kept_ms)
  note_expiring(hours, stored_weight(key) + more + (has_failed and letter_weight(letter) or 0),
    forgotten_ms)
  return whole(forgotten_ms)
end

-- Reads and checks everything that an account's rows write. Returns their verdicts, and what to
-- write: the states of held ones, flat lists of those that wait again, have ended or have failed, and
-- for how long failed attempts keep places.
local function read(queue, rows)
  local schedules, verdicts, hours, seen, failed, bytes = {}, {}, {}, {}, 0, 0
  local plan = {states = {}, again = {}, due = {}, gone = {}, failures = {}}
  for n, row in ipairs(rows) do
    schedules[n] = ARGV[row + 1]
  end
  check_callbacks(queue)
  for n, score in ipairs(redis.call('ZMSCORE', queue.pending, unpack(schedules))) do
    local schedule, row = schedules[n], rows[n]
    local key, due_ms = queue.base .. schedule, tonumber(ARGV[row + 5])
    local stored = redis.pcall('HMGET', key, 'o', 'c')
    local is_held = not seen[schedule] and names(ARGV[row + 2], score)
    verdicts[n] = stored.err and V.DAMAGED or is_held and V.DONE or seen[schedule] and V.ENDED
      or judge_lost(queue, stored, row)
    seen[schedule] = true
    if verdicts[n] == V.DONE then
      failed = failed + (ARGV[row + 3] == 'd' and 0 or 1)
      local more = stored[1] and callback_weight(7 + #ARGV[row + 4])
        - callback_weight(#(stored[2] or '')) or 0
      -- The answer that it brought goes.
      local answer = ARGV[row + 3] == 'd' and stored[1] and redis.call('HSTRLEN', key, 'w') or 0
      more = more - answer
      bytes = bytes + more
      local is_over = not (stored[1] and due_ms)
      local forgotten_ms = is_over and stored[1]
        and forgotten_at(queue, key, stored[1], ARGV[row + 6], more, hours)
      if stored[1] then
        plan.states[#plan.states + 1] = {key, row, forgotten_ms, answer > 0}
        if is_over and ARGV[row + 3] == 'f' then
          plan.failures[#plan.failures + 1] = now_ms
          plan.failures[#plan.failures + 1] = schedule
        end
      end
      if is_over then
        plan.gone[#plan.gone + 1] = schedule
      else
        plan.again[#plan.again + 1] = schedule
        plan.due[#plan.due + 1], plan.due[#plan.due + 2] = due_ms, schedule
      end
    end
  end
  plan.failing_ms = math.min(failing_until(queue) - now_ms + failed * FAILURE_MS,
    MOST_KEPT_MS)
  plan.outdated = #plan.failures > 0
    and outdated_failures(queue, #plan.failures / 2, failed_kept_ms, most_failed)
  plan.expiring = next(hours) and read_expiring(queue.base, hours)
  -- Of an account that is being deleted nothing is counted any more.
  plan.bytes = bytes ~= 0 and redis.call('EXISTS', queue.base .. K.ACCOUNT) == 1
    and added(queue.base .. K.ACCOUNT, {'bytes'}, {bytes})
  return verdicts, plan
end

-- No write of it can fail.
local function record(queue, plan)
  local at = moment(now_ms)
  for _, state in ipairs(plan.states) do
    local key, row, forgotten_ms, has_answer = unpack(state)
    redis.call('HSET', key, 'c', ARGV[row + 3] .. at .. ARGV[row + 4])
    if has_answer then
      redis.call('HDEL', key, 'w')
    end
    if forgotten_ms then
      redis.call('PEXPIREAT', key, forgotten_ms)
    end
  end
  if plan.expiring then
    write(plan.expiring)
  end
  if plan.bytes then
    write(plan.bytes)
  end
  if plan.outdated then
    note_failures(queue, plan.failures, plan.outdated, failed_kept_ms)
  end
  -- Before the others, which look at it.
  if plan.failing_ms > 0 and redis.call('ZCARD', queue.pending) > #plan.gone then
    redis.call('HSET', queue.base .. K.CALLBACK, 'failing', whole(now_ms + plan.failing_ms))
  else
    redis.call('HDEL', queue.base .. K.CALLBACK, 'failing')
  end
  if #plan.again > 0 then
    await_callbacks(queue, plan.again, plan.due)
  end
  if #plan.gone > 0 then
    take_out_callbacks(queue, plan.gone)
  end
end

local accounts, verdicts = {}, {}
for row = 4, #ARGV, 7 do
  accounts[ARGV[row]] = accounts[ARGV[row]] or {}
  table.insert(accounts[ARGV[row]], row)
end
for account, rows in pairs(accounts) do
  local queue = callbacks_of(prefix, account)
  local sound, found, plan = pcall(read, queue, rows)
  for n, row in ipairs(rows) do
    verdicts[(row + 3) / 7] = sound and found[n] or V.DAMAGED
  end
  if sound then
    record(queue, plan)
  else
    redis.pcall('ZADD', prefix .. K.PARKED, now_ms, account)
  end
end
return {now_us, verdicts}
