-- Dead letters: failed schedules, in an index by when they ended. Each addition trims it, by age
-- and by number; an idle account's index expires.

--@include members
--@include lifecycle/weight
-- Whether a packed outcome is that of a failure: the status is the first in its array.
local function has_failed(outcome)
  return string.byte(outcome, 2) == S.FAILED
end

-- Chooses, before the first write, the dead letters that go as `count` come at a moment (ms): those
-- older than `kept_ms`, and the oldest above the `most`, which are then kept for `schedule_ms`;
-- `hours` gets the difference. More go than come, but not all at once. Returns {schedules that go,
-- flat: keys that are forgotten sooner, and when (ms)}.
local function read_failed(base, count, at, kept_ms, most, schedule_ms, hours)
  local index = base .. K.FAILED
  local over = redis.call('ZCARD', index) + count - most
  local oldest = redis.call('ZRANGE', index, 0, 2 * count, 'WITHSCORES')
  local gone, earlier = {}, {}
  for i = 1, #oldest, 2 do
    local key, ended_ms = base .. K.SCHEDULE .. oldest[i], tonumber(oldest[i + 1])
    if ended_ms >= at - kept_ms then
      if #gone >= over then
        break
      end
      local forgotten_ms = ended_ms + schedule_ms
      if forgotten_later(key, forgotten_ms, hours) then
        earlier[#earlier + 1], earlier[#earlier + 2] = key, whole(forgotten_ms)
      end
    end
    gone[#gone + 1] = oldest[i]
  end
  return {gone, earlier}
end

-- letters: flat, moment (ms) and schedule; trimmed: from `read_failed`; kept_ms: as dead letters.
local function note_failed(base, letters, trimmed, kept_ms)
  local index, earlier = base .. K.FAILED, trimmed[2]
  each_thousand('ZADD', index, letters)
  redis.call('PEXPIRE', index, kept_ms)
  each_thousand('ZREM', index, trimmed[1])
  for i = 1, #earlier, 2 do
    redis.call('PEXPIREAT', earlier[i], earlier[i + 1])
  end
end
