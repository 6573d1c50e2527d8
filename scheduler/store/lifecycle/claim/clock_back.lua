#!lua flags=allow-oom
-- Brings forward leases and retries after the server's clock was set back. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
-- ARGV[2]  longest that a lease may last from now on (ms)
-- ARGV[3…] for each schedule: schedule, its last attempt as the caller read it ('': look only at
--          its lease), the same with the moments that hold now, when its next attempt is due (ms)
-- Returns  {now (us), how many were brought forward}
--@include shared/now
--@include lifecycle/row/place
--@include lifecycle/row/heads
check_heads(KEYS[1])
local base, latest, queues = KEYS[1] .. ARGV[1] .. ':', now_ms + ARGV[2], {}

-- Where a schedule stands, and at what (nil: nowhere). Raises if a key is damaged.
local function stand_of(schedule)
  local name, score = ARGV[1], redis.call('ZSCORE', base .. K.WAITING, schedule)
  if not score then
    score = redis.call('ZSCORE', base .. K.LANED, schedule)
    local request = score and redis.call('HGET', base .. schedule, 'r')
    local lane = request and lane_of(request)
    name = lane and name .. '/' .. lane or name
  end
  if not queues[name] then
    queues[name] = queue_of(KEYS[1], name)
    check_queue(queues[name])
  end
  return queues[name], tonumber(score or '')
end

local rows = {} -- {queue, when it is due, schedule, its attempt or nil}
for i = 3, #ARGV, 4 do
  local schedule, attempt = ARGV[i], ARGV[i + 1]
  local queue, score = stand_of(schedule)
  local held = redis.call('ZSCORE', base .. K.HELD, schedule)
  if held and score and score > latest then
    -- No whole millisecond, as no lease ends at one.
    rows[#rows + 1] = {queue, now_ms - 0.5, schedule}
  elseif not held and score and attempt ~= '' and
    redis.call('HGET', base .. schedule, 'n') == attempt then
    rows[#rows + 1] = {queue, tonumber(ARGV[i + 3]), schedule, ARGV[i + 2]}
  end
end
for _, row in ipairs(rows) do
  local queue, at, schedule, attempt = unpack(row)
  if attempt then
    redis.call('HSET', base .. schedule, 'n', attempt)
    wait(queue, {at, schedule}, at)
  else
    prolong(queue, {at, schedule}, {}, at)
  end
end
return {now_us, #rows}
