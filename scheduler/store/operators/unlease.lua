#!lua flags=allow-oom
-- Gives back schedules whose leases have ended: due as before, the attempt used. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, most to give back
-- Returns  {now (us), how many were given back, when the last lease ends (ms; -1: none is left), of
--          those it looked at: all, unless the most were given back}
--@include now
--@include lifecycle/place
local prefix, account = KEYS[1], ARGV[1]
local queue, last_end, earliest = queue_of(prefix, account), -1, math.huge
local schedules, due, tried = {}, {}, {}
check_heads(prefix)
check_queue(queue)
local members = redis.call('ZRANGE', queue.held, 0, -1, 'WITHSCORES')
for i = 1, #members, 2 do
  if #schedules == tonumber(ARGV[2]) then
    break
  end
  local schedule, due_ms = members[i], members[i + 1]
  local lease_end = tonumber(redis.call('ZSCORE', queue.waiting, schedule) or '0')
  if lease_end > now_ms then
    last_end = math.max(last_end, math.ceil(lease_end))
  else
    schedules[#schedules + 1] = schedule
    due[#due + 1], due[#due + 2] = due_ms, schedule
    earliest = math.min(earliest, tonumber(due_ms))
    if redis.call('HEXISTS', queue.tried, schedule) == 0 then
      tried[#tried + 1], tried[#tried + 2] = schedule, 1
    end
  end
end
if #schedules > 0 then
  put_back(queue, schedules, due, tried, {}, earliest)
end
return {now_us, #schedules, last_end}
