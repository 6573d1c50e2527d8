#!lua flags=allow-oom
-- Gives back what was claimed and not started: due as it was before, the attempt not used.
-- Safe to repeat: the first time takes the lease away.
-- KEYS[1]  the shard's prefix
-- ARGV     for each schedule: account, schedule, token, when it is due (ms), attempts used before
-- Returns  {now (us), a code for each}: 1 given back, 0 no longer held by this token, -2 a key of
--          its account is damaged
--@include now
--@include lifecycle/place
--@include lifecycle/token
--@include lifecycle/rows
local prefix = KEYS[1]
check_heads(prefix)

return {now_us, by_account(1, 5, function(queue, held)
  local waiting, schedules, used, fresh, earliest = {}, {}, {}, {}, math.huge
  for n, i in ipairs(held) do
    local schedule, due = ARGV[i + 1], tonumber(ARGV[i + 3])
    schedules[n] = schedule
    waiting[2 * n - 1], waiting[2 * n] = ARGV[i + 3], schedule
    earliest = math.min(earliest, due)
    if ARGV[i + 4] == '0' then
      fresh[#fresh + 1] = schedule
    else
      used[#used + 1], used[#used + 2] = schedule, ARGV[i + 4]
    end
  end
  put_back(queue, schedules, waiting, used, fresh, earliest)
end)}
