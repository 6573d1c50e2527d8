-- Dead letters: failed schedules, in an index by when they ended. Each addition trims it, by age
-- and by number; an idle account's index expires. Those with a reference are in another index by
-- that, and their members in the first end with it: a trim needs no request to know it.

--@include shared/members
--@include lifecycle/row/weight
-- Whether a packed outcome is that of a failure: the status is the first in its array.
local function has_failed(outcome)
  return string.byte(outcome, 2) == S.FAILED
end

-- Chooses, before the first write, the dead letters that go as `count` come at a moment (ms): those
-- older than `kept_ms`, and the oldest above the `most`, which are then kept for `schedule_ms`;
-- `hours` gets the difference. More go than come, but not all at once. Returns {members that go,
-- flat: keys that are forgotten sooner, and when (ms); members of `failed_references` that go}.
local function read_failed(base, count, at, kept_ms, most, schedule_ms, hours)
  local index = base .. K.FAILED
  local over = redis.call('ZCARD', index) + count - most
  local oldest = redis.call('ZRANGE', index, 0, 2 * count, 'WITHSCORES')
  local gone, earlier, referred = {}, {}, {}
  for i = 1, #oldest, 2 do
    local member, ended_ms = oldest[i], tonumber(oldest[i + 1])
    local schedule = string.sub(member, 1, 26)
    if ended_ms >= at - kept_ms then
      if #gone >= over then
        break
      end
      local key, forgotten_ms = base .. schedule, ended_ms + schedule_ms
      if forgotten_later(key, forgotten_ms, hours, letter_weight(member)) then
        earlier[#earlier + 1], earlier[#earlier + 2] = key, whole(forgotten_ms)
      end
    end
    gone[#gone + 1] = member
    if #member > 26 then
      referred[#referred + 1] = string.sub(member, 28) .. '\0' .. schedule
    end
  end
  return {gone, earlier, referred}
end

-- letters: flat, moment (ms) and member; referred: flat, 0 and member of `failed_references`;
-- trimmed: from `read_failed`; kept_ms: as dead letters.
local function note_failed(base, letters, referred, trimmed, kept_ms)
  local index, earlier, others = base .. K.FAILED, trimmed[2], base .. K.FAILED_REFERENCES
  each_thousand('ZADD', index, letters)
  redis.call('PEXPIRE', index, kept_ms)
  each_thousand('ZREM', index, trimmed[1])
  if #referred > 0 then
    each_thousand('ZADD', others, referred)
    redis.call('PEXPIRE', others, kept_ms)
  end
  each_thousand('ZREM', others, trimmed[3])
  for i = 1, #earlier, 2 do
    redis.call('PEXPIREAT', earlier[i], earlier[i + 1])
  end
end
