#!lua flags=allow-oom
-- Brings forward callbacks after the server's clock was set back: leases, and attempts that are due
-- later by as much. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
-- ARGV[2]  longest that a lease may last from now on (ms)
-- ARGV[3…] for each: schedule, its callback's state as the caller read it ('': look only at its
--          lease), what follows the moment in it with the moments that hold now, when it is due
--          (ms)
-- Returns  {now (us), how many were brought forward}
--@include shared/now
--@include shared/moment
--@include lifecycle/row/place
--@include lifecycle/callback/callbacks
local queue, latest = callbacks_of(KEYS[1], ARGV[1]), now_ms + ARGV[2]
check_callbacks(queue)
local due, ends, moved = {}, {}, {}
for i = 3, #ARGV, 4 do
  local schedule, state = ARGV[i], ARGV[i + 1]
  local score = tonumber(redis.call('ZSCORE', queue.pending, schedule) or '')
  local held = redis.call('ZSCORE', queue.calling, schedule)
  if score and held and score > latest then
    -- No whole millisecond, as no lease ends at one.
    ends[#ends + 1], ends[#ends + 2] = now_ms - 0.5, schedule
  elseif score and not held and state ~= '' then
    local key = queue.base .. schedule
    if redis.call('HGET', key, 'c') == state then
      due[#due + 1], due[#due + 2] = ARGV[i + 3], schedule
      moved[#moved + 1] = {key, 'p' .. moment(now_ms) .. ARGV[i + 2]}
    end
  end
end
for _, each in ipairs(moved) do
  redis.call('HSET', each[1], 'c', each[2])
end
hold_callbacks(queue, ends)
await_callbacks(queue, {}, due)
return {now_us, (#due + #ends) / 2}
