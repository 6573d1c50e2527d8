-- Judges the rows of `end`: who may record what. Needs end.lua.

-- The verdict on a row, for which its schedule is read; there: it is at the score that the row names.
local function judge_row(group, row, score, there)
  local by_owner = group.kind == 'stopped' or group.kind == 'cancelled'
  local stored = redis.pcall('HMGET', group.base .. ARGV[row], by_owner and 'r' or 'o', 'o', 'n')
  if stored.err then
    return (there or by_owner) and V.DAMAGED or V.HELD
  elseif stored[2] and not there then
    return V.ENDED
  elseif not by_owner then
    -- This very attempt may have been recorded by a call whose reply was lost.
    local recorded = group.kind == 'retried' and stored[3]
      and string.sub(stored[3], 13) == ARGV[row + 2]
    return there and V.DONE or recorded and V.ENDED
      or redis.call('EXISTS', group.base .. K.ACCOUNT) == 1 and V.HELD or V.UNKNOWN
  elseif not stored[1] then
    return V.UNKNOWN
  elseif redis.call('ZSCORE', group.queue.held, ARGV[row]) then
    return V.HELD
  end
  local as_read = redis.sha1hex(stored[1]) == ARGV[row + 3]
  if as_read and not score then
    return V.UNKNOWN
  end
  local was_tried = stored[3] ~= false
  return there and as_read and was_tried == (group.kind == 'stopped') and V.DONE or V.CHANGED
end

-- Reads a group's schedules and outcomes (of `retried`, attempts) into it. Returns a verdict for
-- each, and whether all are DONE.
local function judge(group)
  local schedules, outcomes, width = {}, {}, WIDTHS[group.kind]
  for i = 1, group.size do
    local row = group.first + width * (i - 1)
    schedules[i], outcomes[i] = ARGV[row], ARGV[row + 2]
  end
  group.schedules, group.outcomes = schedules, outcomes
  local scores = redis.call('ZMSCORE', group.queue.waiting, unpack(schedules))
  local found, all, token, last, there = {}, true, nil, nil, false
  local is_fired = group.kind == 'fired'
  for i, score in ipairs(scores) do
    local row = group.first + width * (i - 1)
    if ARGV[row + 1] ~= token or score ~= last then -- those of one claim have both in common
      token, last = ARGV[row + 1], score
      there = names(token, score)
    end
    -- Nothing is read of one that was fired and is at its score: that would cost more than all other
    -- reads, and `end_fired` does without.
    found[i] = there and is_fired and V.DONE or judge_row(group, row, score, there)
    all = all and found[i] == V.DONE
  end
  return found, all
end
