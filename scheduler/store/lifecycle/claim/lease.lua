#!lua flags=allow-oom
-- Prolongs leases, or gives back schedules that were not started, where the token still holds the
-- schedule. Safe to repeat: to prolong, with the new token among the old ones.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  lease (ms)
-- ARGV[2]  the new token: when the leases are to end (us), by the caller's idea of our clock, and
--          no whole millisecond, at which only waiting ones stand; '' to give back
-- ARGV[3…] for each schedule: account, <account>/<lane> or <account># (its callback), schedule,
--          token, attempts used ('': none), when it is due (ms; '' to prolong)
-- Returns  {now (us), a verdict for each}: DONE, ENDED: not held by this token any more, DAMAGED: a
--          key of its account. No verdicts: the new token is more than half a lease (and a second)
--          off, and nothing was done
--@include shared/now
--@include lifecycle/row/place
--@include lifecycle/row/token
--@include lifecycle/callback/callbacks
local prefix, lease_ms = KEYS[1], tonumber(ARGV[1])
local lease_end = ARGV[2] ~= '' and ARGV[2] / 1000
if lease_end and math.abs(lease_end - now_ms - lease_ms) > math.max(lease_ms / 2, 1000) then
  return {now_us, {}}
end

-- A queue's rows with a good token. Raises if a key that is read or written is damaged.
local function held_among(queue, rows)
  local schedules, held = {}, {}
  for n, i in ipairs(rows) do
    schedules[n] = ARGV[i + 1]
  end
  local check = queue.pending and check_callbacks or check_queue
  check(queue)
  local scores = redis.call('ZMSCORE', queue.pending or queue.waiting, unpack(schedules))
  for n, i in ipairs(rows) do
    -- One that waits again stands at a whole millisecond, which no token names.
    if names(ARGV[i + 2], scores[n]) then
      held[#held + 1] = i
    end
  end
  return held
end

-- No write of it can fail.
local function settle(queue, held)
  local schedules, due, tried, fresh, earliest = {}, {}, {}, {}, math.huge
  for n, i in ipairs(held) do
    local schedule, at = ARGV[i + 1], lease_end or tonumber(ARGV[i + 4])
    schedules[n], due[2 * n - 1], due[2 * n] = schedule, at, schedule
    earliest = math.min(earliest, at)
    if ARGV[i + 3] == '' then
      fresh[#fresh + 1] = schedule
    else
      tried[#tried + 1], tried[#tried + 2] = schedule, ARGV[i + 3]
    end
  end
  if queue.pending and lease_end then
    hold_callbacks(queue, due)
    relook_at_callbacks(queue)
  elseif queue.pending then
    await_callbacks(queue, schedules, due)
  elseif lease_end then
    prolong(queue, due, tried, lease_end)
  else
    put_back(queue, schedules, due, tried, fresh, earliest)
  end
end

check_heads(prefix)
local queues, verdicts = {}, {}
for i = 3, #ARGV, 5 do
  queues[ARGV[i]] = queues[ARGV[i]] or {}
  table.insert(queues[ARGV[i]], i)
end
for name, rows in pairs(queues) do
  local queue = string.byte(name, -1) == 35 and callbacks_of(prefix, string.sub(name, 1, -2))
    or queue_of(prefix, name)
  local sound, held = pcall(held_among, queue, rows)
  for _, i in ipairs(rows) do
    verdicts[(i + 2) / 5] = sound and V.ENDED or V.DAMAGED
  end
  for _, i in ipairs(sound and held or {}) do
    verdicts[(i + 2) / 5] = V.DONE
  end
  if sound and #held > 0 then
    settle(queue, held)
  end
end
return {now_us, verdicts}
