#!lua flags=no-writes
-- Counts schedules of a shard that are due now and soon, of the accounts and their lanes whose
-- heads come first: not of suspended, paused (at -inf) and damaged ones, nor held ones. In a lane
-- with limits only those count that may start: a customer's rate makes nothing overdue.
-- KEYS[1]  the shard's prefix
-- ARGV     most accounts and lanes to look at, most lanes of one account, how many windows of time
--          to look ahead, a window (ms), that while (ms)
-- Returns  {now (us), heads with something due by the last window's end, how many of these were
--          looked at, overdue, since when the oldest is due (ms; '' if none is), {how many come due
--          in each window}, since when the shard is on hold (ms; '' if it is not), recurring
--          schedules that should have been tended a while ago}
--@include shared/now
local room, most_lanes = tonumber(ARGV[1]), tonumber(ARGV[2])
local windows, window_ms = tonumber(ARGV[3]), tonumber(ARGV[4])
local heads, horizon = KEYS[1] .. K.HEADS, now_ms + windows * window_ms
local names = redis.call('ZRANGE', heads, '(-inf', horizon, 'BYSCORE', 'LIMIT', 0, room)
local resumed = redis.call('EXISTS', KEYS[1] .. K.RESUMED) == 1
local overdue, oldest, coming, seen = 0, nil, {}, 0
for i = 1, windows do
  coming[i] = 0
end

-- Notes that `count` may have started since a moment, if `count` is above 0.
local function note_overdue(account, count, since)
  if resumed and count > 0 then
    local resumed_ms = redis.call('ZSCORE', KEYS[1] .. K.RESUMED, account)
    since = math.max(since, tonumber(resumed_ms or since))
  end
  if count > 0 and since <= now_ms then
    overdue, oldest = overdue + count, math.min(oldest or since, since)
  end
end

-- How many stand in a set in each window. Calls `each` with these, until none is left.
local function each_window(waiting, each)
  local left = redis.call('ZCOUNT', waiting, '(' .. now_ms, horizon)
  for i = 1, windows do
    local from, to = now_ms + (i - 1) * window_ms, now_ms + i * window_ms
    local count = left
    if left > 0 and i < windows then
      count = redis.call('ZCOUNT', waiting, '(' .. from, to)
    end
    left = math.max(0, left - count)
    each(i, count, to)
  end
end

local function add_account(account)
  local base = KEYS[1] .. account .. ':'
  local waiting = base .. K.WAITING
  -- In `waiting`, what a worker holds stands at its lease's end, which is the nearest future.
  local unseen = redis.call('ZCARD', base .. K.HELD)
  local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) <= now_ms then
    -- Of one whose lease has ended, triggerAt stands in `held`.
    local since = tonumber(redis.call('ZSCORE', base .. K.HELD, first[1]) or first[2])
    note_overdue(account, redis.call('ZCOUNT', waiting, '-inf', now_ms), since)
  end
  each_window(waiting, function(i, count)
    local hidden = math.min(count, unseen)
    unseen = unseen - hidden
    coming[i] = coming[i] + count - hidden
  end)
end

-- Adds what may start in a lane: since when and how many by its rate, and beside those that run.
-- weight: for how many lanes it stands.
local function add_lane(account, lane, head_ms, weight)
  local base = KEYS[1] .. account .. ':'
  local members = base .. K.LANE_QUEUE .. lane
  local set = redis.call('HMGET', base .. K.LANE .. lane, 'interval', 'burst', 'tat', 'gate',
    'parallelism')
  local interval_ms = tonumber(set[1] or '0') / 1000
  local burst, tat_ms, gate_ms = tonumber(set[2] or '1'), tonumber(set[3] or '0') / 1000, set[4]
  local first = redis.call('ZRANGE', members, 0, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
  local lost = redis.call('ZRANGE', members, '(0', '-' .. now_ms, 'BYSCORE', 'REV', 'LIMIT', 0,
    1)[1]
  local since = math.min(tonumber(first[2] or 'inf'),
    lost and tonumber(redis.call('ZSCORE', base .. K.HELD, lost) or now_ms) or math.huge)
  local count = redis.call('ZCOUNT', members, '-' .. now_ms, now_ms)
  local backlog = count
  since = math.max(since, tonumber(gate_ms or '0'))
  if interval_ms > 0 then
    since = math.max(since, tat_ms - (burst - 1) * interval_ms)
    count = math.min(count, 1 + math.floor((now_ms - since) / interval_ms))
  end
  if set[5] then
    count = math.min(count, set[5] - redis.call('ZCOUNT', members, '-inf', '(-' .. now_ms))
  end
  if head_ms > now_ms then
    count = 0
  end
  note_overdue(account, count * weight, since)
  backlog = backlog - math.max(0, count)
  each_window(members, function(i, more, to_ms)
    backlog = backlog + more
    local starts = head_ms > to_ms and 0 or backlog
    if interval_ms > 0 then
      starts = math.min(starts, math.ceil(window_ms / interval_ms))
    end
    backlog = backlog - starts
    coming[i] = coming[i] + starts * weight
  end)
end

local function add_lanes(account)
  local heads_of_lanes = KEYS[1] .. account .. ':' .. K.LANE_HEADS
  local lanes = redis.call('ZRANGE', heads_of_lanes, '(-inf', horizon, 'BYSCORE', 'LIMIT', 0,
    math.min(most_lanes, room), 'WITHSCORES')
  local all = redis.call('ZCOUNT', heads_of_lanes, '(-inf', horizon)
  room = room - #lanes / 2
  for i = 1, #lanes, 2 do
    pcall(add_lane, account, lanes[i], tonumber(lanes[i + 1]), all / (#lanes / 2))
  end
end

for _, name in ipairs(names) do
  if room <= 0 then
    break
  end
  room, seen = room - 1, seen + 1
  local account = string.match(name, '^[^/!]+')
  if not account then
    -- The end of an account's pause.
  elseif account == name then
    pcall(add_account, account)
  else
    pcall(add_lanes, account)
  end
end
local total = redis.call('ZCOUNT', heads, '(-inf', horizon)
local on_hold = redis.call('GET', KEYS[1] .. K.HOLD) or ''
local untended = redis.pcall('ZCOUNT', KEYS[1] .. K.RULES_DUE, '-inf', now_ms - ARGV[5])
untended = type(untended) == 'number' and untended or 0
return {now_us, total, seen, overdue, oldest and tostring(oldest) or '', coming, on_hold, untended}
