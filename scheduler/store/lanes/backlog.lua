#!lua flags=no-writes
-- Looks for lanes of an account whose due schedules do not start: first at those that are paused
-- without an end, then at those that may start something soonest.
-- KEYS[1]  the account's prefix
-- ARGV     most lanes to look at, for how long a schedule has to be due (ms), a while (ms)
-- Returns  {now (us), lanes with something unended, lanes that were looked at, how many that are due
--          within the while cannot start in it, for each lane with a backlog, flat: its name, how
--          many are due, since when the oldest is (ms)}
--@include shared/now
local base, late_ms, horizon = KEYS[1], now_ms - ARGV[2], now_ms + ARGV[3]
local heads = redis.call('ZRANGE', base .. K.LANE_HEADS, '-inf', '+inf', 'BYSCORE', 'LIMIT', 0,
  ARGV[1], 'WITHSCORES')

-- How many of those that are due by the horizon the rate lets start by then.
local function starts_of(lane, head_ms, coming)
  if head_ms == -math.huge or head_ms > horizon then
    return 0
  end
  local set = redis.call('HMGET', base .. K.LANE .. lane, 'interval', 'burst')
  local interval_ms = tonumber(set[1] or '0') / 1000
  if interval_ms <= 0 then
    return coming
  end
  local from, at_once = head_ms, 1
  if head_ms <= now_ms then
    from, at_once = now_ms, tonumber(set[2] or '1')
  end
  return math.min(coming, at_once + math.floor((horizon - from) / interval_ms))
end

local stuck, seen, found = 0, 0, {}
-- Members whose lease has ended wait as well: they stand between minus now and 0.
local function add_lane(lane, head_ms)
  local members, lost = base .. K.LANE_QUEUE .. lane, '-' .. now_ms
  local coming = redis.call('ZCOUNT', members, lost, horizon)
  if coming == 0 then
    return
  end
  local due = redis.call('ZCOUNT', members, lost, late_ms)
  local starts = starts_of(lane, head_ms, coming)
  if due > 0 then
    local first = redis.call('ZRANGE', members, 0, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    local since = math.min(tonumber(first[2] or late_ms), late_ms)
    found[#found + 1], found[#found + 2], found[#found + 3] = lane, due, tostring(since)
  end
  stuck, seen = stuck + coming - starts, seen + coming
end

for i = 1, #heads, 2 do
  pcall(add_lane, heads[i], tonumber(heads[i + 1]))
end
local total = redis.call('ZCARD', base .. K.LANE_HEADS)
-- Of the other lanes none starts anything before the last of these.
if total > #heads / 2 and tonumber(heads[#heads]) > horizon then
  local rest = redis.call('ZCOUNT', base .. K.LANED, '-inf', horizon) - seen
  stuck = stuck + math.max(0, rest - redis.call('ZCARD', base .. K.HELD))
end
return {now_us, total, #heads / 2, stuck, found}
