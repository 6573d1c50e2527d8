-- Dead letters: failed schedules, in an index by when they ended. Each addition trims it, by age
-- and by number; an idle account's index expires. Those with a reference are in another index by
-- that, and their members in the first end with it: a trim needs no request to know it.

--@include shared/members
--@include lifecycle/row/weight
-- Whether a packed outcome is that of a failure: the status is the first in its array.
local function has_failed(outcome)
  return string.byte(outcome, 2) == S.FAILED
end

-- Plans that a dead letter goes. Its schedule is kept until a moment then (ms; nil: as long as it
-- is), if that is sooner; `hours` gets the difference. going: {members that go; flat: keys that are
-- forgotten sooner, and when (ms); members of `failed_references` that go}.
local function let_letter_go(going, base, member, forgotten_ms, hours)
  local schedule = string.sub(member, 1, 26)
  local key, gone, earlier, referred = base .. schedule, unpack(going)
  if forgotten_ms and forgotten_later(key, forgotten_ms, hours, letter_weight(member)) then
    earlier[#earlier + 1], earlier[#earlier + 2] = key, whole(forgotten_ms)
  end
  gone[#gone + 1] = member
  if #member > 26 then
    referred[#referred + 1] = string.sub(member, 28) .. '\0' .. schedule
  end
end

-- Chooses, before the first write, the dead letters that go as `count` come at a moment (ms): those
-- older than `kept_ms`, and the oldest above the `most`, which are then kept for `schedule_ms`;
-- `hours` gets the difference. More go than come, but not all at once. Returns those that go, as
-- `let_letter_go` has them.
local function read_failed(base, count, at, kept_ms, most, schedule_ms, hours)
  local index = base .. K.FAILED
  local over = redis.call('ZCARD', index) + count - most
  local oldest = redis.call('ZRANGE', index, 0, 2 * count, 'WITHSCORES')
  local going = {{}, {}, {}}
  for i = 1, #oldest, 2 do
    local ended_ms = tonumber(oldest[i + 1])
    local is_old = ended_ms < at - kept_ms
    if not is_old and #going[1] >= over then
      break
    end
    let_letter_go(going, base, oldest[i], not is_old and ended_ms + schedule_ms, hours)
  end
  return going
end

local function drop_letters(base, going)
  each_thousand('ZREM', base .. K.FAILED, going[1])
  each_thousand('ZREM', base .. K.FAILED_REFERENCES, going[3])
  for i = 1, #going[2], 2 do
    redis.call('PEXPIREAT', going[2][i], going[2][i + 1])
  end
end

-- letters: flat, moment (ms) and member; referred: flat, 0 and member of `failed_references`;
-- going: from `read_failed`; kept_ms: as dead letters.
local function note_failed(base, letters, referred, going, kept_ms)
  local index, others = base .. K.FAILED, base .. K.FAILED_REFERENCES
  each_thousand('ZADD', index, letters)
  redis.call('PEXPIRE', index, kept_ms)
  if #referred > 0 then
    each_thousand('ZADD', others, referred)
    redis.call('PEXPIRE', others, kept_ms)
  end
  drop_letters(base, going)
end
