-- Dead letters: those that ended as failed, in an index by when they ended. It is trimmed as it
-- grows, by age and by number, so that no janitor is needed; an idle account's expires as a whole.

--@include members
--@include schedules/weight
-- Whether a packed outcome is that of a failure: the status is the first in its array.
local function has_failed(outcome)
  return string.byte(outcome, 2) == S.FAILED
end

-- Removes the oldest: those from before `oldest_ms`, and what is over the `most`. These are kept on
-- as any other that has ended. Not all at once, but more than the `count` that came.
local function trim_failed(base, count, oldest_ms, most, schedule_ms)
  local index, over = base .. K.FAILED, redis.call('ZCARD', base .. K.FAILED) - most
  local oldest = redis.call('ZRANGE', index, 0, 2 * count, 'WITHSCORES')
  local gone = {}
  for i = 1, #oldest, 2 do
    local ended_ms = tonumber(oldest[i + 1])
    if ended_ms >= oldest_ms then
      if #gone >= over then
        break
      end
      forget_earlier(base, oldest[i], ended_ms + schedule_ms)
    end
    gone[#gone + 1] = oldest[i]
  end
  each_thousand('ZREM', index, gone)
end

-- base: the account's prefix; letters: flat, moment (ms) and schedule; kept_ms: how long they are
-- dead letters; most: of an account; schedule_ms: how long others that ended are kept.
local function note_failed(base, letters, kept_ms, most, schedule_ms)
  local index = base .. K.FAILED
  each_thousand('ZADD', index, letters)
  redis.call('PEXPIRE', index, kept_ms)
  trim_failed(base, #letters / 2, letters[1] - kept_ms, most, schedule_ms)
end
