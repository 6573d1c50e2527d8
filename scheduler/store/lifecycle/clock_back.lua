#!lua flags=allow-oom
-- Brings forward leases and retries after the server's clock was set back. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
-- ARGV[2]  longest that a lease may last from now on (ms)
-- ARGV[3…] for each schedule: schedule, its last attempt as the caller read it ('': look only at
--          its lease), the same with the moments that hold now, when its next attempt is due (ms)
-- Returns  {now (us), how many were brought forward}
--@include now
--@include lifecycle/place
check_heads(KEYS[1])
local base = KEYS[1] .. ARGV[1] .. ':'
local queue, latest = queue_of(KEYS[1], ARGV[1]), now_ms + ARGV[2]
local rows = {} -- flat: schedule, when it is due, its attempt or ''
for i = 3, #ARGV, 4 do
  local schedule, attempt = ARGV[i], ARGV[i + 1]
  local score = tonumber(redis.call('ZSCORE', queue.waiting, schedule) or '')
  local held = redis.call('ZSCORE', queue.held, schedule)
  if held and score and score > latest then
    -- No whole millisecond, as no lease ends at one.
    rows[#rows + 1], rows[#rows + 2], rows[#rows + 3] = schedule, now_ms - 0.5, ''
  elseif not held and score and attempt ~= '' and
    redis.call('HGET', base .. K.SCHEDULE .. schedule, 'n') == attempt then
    rows[#rows + 1], rows[#rows + 2], rows[#rows + 3] = schedule, ARGV[i + 3], ARGV[i + 2]
  end
end
for i = 1, #rows, 3 do
  if rows[i + 2] ~= '' then
    redis.call('HSET', base .. K.SCHEDULE .. rows[i], 'n', rows[i + 2])
  end
  wait(queue, {rows[i + 1], rows[i]}, tonumber(rows[i + 1]))
end
return {now_us, #rows / 3}
