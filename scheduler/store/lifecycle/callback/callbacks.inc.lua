-- Where ended schedules stand whose callback is pending: `callbacks`, and, of those that a worker
-- holds, `calling`. Claims look at an account's when `callback_heads` says, and at that when it is
-- the turn of CALLBACK_TURN among `heads`. Their queue is named `<account>#`. Those whose callback
-- has failed stand in `failed_callbacks`. Only this file writes any of that but `heads`. Needs
-- `place`.

local function callbacks_of(prefix, account)
  local base = prefix .. account .. ':'
  return {prefix = prefix, account = account, base = base, pending = base .. K.CALLBACKS,
    calling = base .. K.CALLING, failed = base .. K.FAILED_CALLBACKS,
    turns = prefix .. K.CALLBACK_HEADS}
end

-- So many of an account run at most. A failed attempt keeps its place for FAILURE_MS more, or one
-- that fails at once would make room for the next at once: there are 50 a second, then. Places that
-- were kept are used TOGETHER, or there were a claim for each; up to so many before they are free.
local MOST_CALLING, FAILURE_MS, TOGETHER = 64, 20, 8
local MOST_KEPT_MS = (MOST_CALLING + TOGETHER) * FAILURE_MS

-- Until when failed attempts of an account keep places (ms), each behind the one before; now, if
-- none does. What they cannot reach comes from a clock that was set back since.
local function failing_until(queue)
  local at = tonumber(redis.call('HGET', queue.base .. K.CALLBACK, 'failing') or '')
  return at and at > now_ms and at <= now_ms + MOST_KEPT_MS and at or now_ms
end

-- Raises if a key is damaged; for use before the first write.
local function check_callbacks(queue)
  check_heads(queue.prefix)
  redis.call('ZCARD', queue.pending)
  redis.call('ZCARD', queue.calling)
  redis.call('ZCARD', queue.turns)
  redis.call('HLEN', queue.base .. K.CALLBACK)
end

-- Claims look at an account's callbacks no later than `at` (ms), unless it is suspended.
local function look_at_callbacks(queue, at)
  redis.call('ZADD', queue.turns, 'LT', math.max(at, now_ms), queue.account)
  look_at(queue.prefix, K.CALLBACK_TURN, at)
end

-- They have one place more, or other moments.
local function relook_at_callbacks(queue)
  local first = redis.call('ZRANGE', queue.pending, 0, 0, 'WITHSCORES')[2]
  if first then
    local has_room_at = failing_until(queue) - (MOST_CALLING - TOGETHER) * FAILURE_MS
    look_at_callbacks(queue, math.max(tonumber(first), has_room_at))
  end
end

-- Callbacks wait, which no worker holds any more. due: flat, when due (ms) and schedule.
local function await_callbacks(queue, schedules, due)
  each_thousand('ZREM', queue.calling, schedules)
  each_thousand('ZADD', queue.pending, due)
  relook_at_callbacks(queue)
end

-- A worker has callbacks until its lease ends. ends: flat, lease's end (ms) and schedule.
local function hold_callbacks(queue, ends)
  each_thousand('ZADD', queue.pending, ends)
  each_thousand('ZADD', queue.calling, ends)
end

-- Callbacks that have ended stand nowhere.
local function take_out_callbacks(queue, schedules)
  each_thousand('ZREM', queue.pending, schedules)
  each_thousand('ZREM', queue.calling, schedules)
  relook_at_callbacks(queue)
end

-- Chooses, before the first write, those that leave the list of failed callbacks as `count` come:
-- what has failed longer ago than `kept_ms`, and the oldest above the `most`. More go than come, but
-- not all at once.
local function outdated_failures(queue, count, kept_ms, most)
  local over, gone = redis.call('ZCARD', queue.failed) + count - most, {}
  local oldest = redis.call('ZRANGE', queue.failed, 0, 2 * count, 'WITHSCORES')
  for i = 1, #oldest, 2 do
    if tonumber(oldest[i + 1]) >= now_ms - kept_ms and #gone >= over then
      break
    end
    gone[#gone + 1] = oldest[i]
  end
  return gone
end

-- Callbacks have failed. failures: flat, when (ms) and schedule; gone: from `outdated_failures`.
local function note_failures(queue, failures, gone, kept_ms)
  each_thousand('ZREM', queue.failed, gone)
  each_thousand('ZADD', queue.failed, failures)
  redis.call('PEXPIRE', queue.failed, kept_ms)
end

local function take_out_failures(queue, schedules)
  each_thousand('ZREM', queue.failed, schedules)
end

-- Claims look at an account's callbacks at `at` (ms) and not before; nil: none is pending.
local function turn_callbacks(prefix, account, at)
  if at then
    redis.call('ZADD', prefix .. K.CALLBACK_HEADS, string.format('%.3f', at), account)
  else
    redis.call('ZREM', prefix .. K.CALLBACK_HEADS, account)
  end
end

-- An account's callbacks start again, or stop.
local function start_callbacks(prefix, account)
  redis.call('ZREM', prefix .. K.CALLBACK_HEADS, account)
  relook_at_callbacks(callbacks_of(prefix, account))
end

local function stop_callbacks(prefix, account)
  redis.call('ZADD', prefix .. K.CALLBACK_HEADS, '-inf', account)
end

-- No callback of an account is pending or has failed any more, and it has no default.
local function clear_callbacks(prefix, account)
  local base = prefix .. account .. ':'
  redis.call('UNLINK', base .. K.CALLBACKS, base .. K.CALLING, base .. K.CALLBACK,
    base .. K.FAILED_CALLBACKS)
  turn_callbacks(prefix, account, nil)
end
