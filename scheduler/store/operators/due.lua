#!lua flags=no-writes
-- Counts schedules of a shard that are due now and soon, of the accounts whose heads come first: not
-- of suspended accounts (at -inf) and damaged ones, nor held ones.
-- KEYS[1]  the shard's prefix
-- ARGV     most accounts to look at, how many windows of time to look ahead, a window (ms)
-- Returns  {now (us), accounts with something due by the last window's end, how many of these were
--          looked at, overdue, since when the oldest is due (ms; '' if none is), {how many come due
--          in each window}, since when the shard is on hold (ms; '' if it is not)}
--@include now
local windows, window_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
local heads, horizon = KEYS[1] .. K.HEADS, now_ms + windows * window_ms
local accounts = redis.call('ZRANGE', heads, '(-inf', horizon, 'BYSCORE', 'LIMIT', 0, ARGV[1])
local overdue, oldest, coming = 0, nil, {}
for i = 1, windows do
  coming[i] = 0
end
local function add(account)
  local base = KEYS[1] .. account .. ':'
  local waiting = base .. K.WAITING
  -- In `waiting`, what a worker holds stands at its lease's end, which is the nearest future.
  local unseen = redis.call('ZCARD', base .. K.HELD)
  local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) <= now_ms then
    overdue = overdue + redis.call('ZCOUNT', waiting, '-inf', now_ms)
    -- Of one whose lease has ended, triggerAt stands in `held`.
    local since = tonumber(redis.call('ZSCORE', base .. K.HELD, first[1]) or first[2])
    oldest = math.min(oldest or since, since)
  end
  local left = redis.call('ZCOUNT', waiting, '(' .. now_ms, horizon)
  for i = 1, windows do
    if left == 0 then
      break
    end
    local from, to = now_ms + (i - 1) * window_ms, now_ms + i * window_ms
    local count = left
    if i < windows then
      count = redis.call('ZCOUNT', waiting, '(' .. from, to)
    end
    left = math.max(0, left - count)
    local hidden = math.min(count, unseen)
    unseen = unseen - hidden
    coming[i] = coming[i] + count - hidden
  end
end
for _, account in ipairs(accounts) do
  pcall(add, account)
end
local total = redis.call('ZCOUNT', heads, '(-inf', horizon)
local on_hold = redis.call('GET', KEYS[1] .. K.HOLD) or ''
return {now_us, total, #accounts, overdue, oldest and tostring(oldest) or '', coming, on_hold}
