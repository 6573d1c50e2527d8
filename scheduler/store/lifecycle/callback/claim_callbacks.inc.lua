-- Claims callbacks: a tenth of the claim, or one, and so many of an account that no more than
-- MOST_CALLING of it run. Needs claim.lua.

--@include lifecycle/callback/callbacks
-- Workers claim ahead: if places counted as they are now, each claim would come too early.
local counts_at = math.max(now, math.min(due_by, now + TOGETHER * FAILURE_MS))

-- How many more of an account may run; if failed attempts keep places that are wanted, when to look
-- again (ms); and whether they keep most places.
local function free_calls(queue)
  local running = redis.call('ZCOUNT', queue.calling, string.format('(%.3f', now), '+inf')
  local until_ms = failing_until(queue)
  local kept = math.max(0, math.ceil((until_ms - counts_at) / FAILURE_MS))
  local free = MOST_CALLING - running - kept
  if kept > 0 and free < TOGETHER then
    return 0, math.min(until_ms, counts_at + (TOGETHER - free) * FAILURE_MS)
  end
  return free, nil, kept > MOST_CALLING / 2
end

-- The callbacks of an account that are due and that no worker holds; at most so many.
local function due_callbacks(queue, most)
  local due = redis.call('ZRANGE', queue.pending, '-inf', due_by, 'BYSCORE', 'LIMIT', 0,
    most + MOST_CALLING, 'WITHSCORES')
  local schedules, found = {}, {}
  for i = 1, #due, 2 do
    schedules[#schedules + 1] = due[i]
  end
  local calling = #due > 0 and redis.call('ZMSCORE', queue.calling, unpack(schedules))
  for i, schedule in ipairs(schedules) do
    if #found < most and not (calling[i] and tonumber(due[2 * i]) > asked_at) then
      found[#found + 1] = schedule
    end
  end
  return found
end

-- Claims up to `most` of an account's. Returns how many. While failed attempts keep most places,
-- callbacks start one by one: eight at once would delay schedules of others by a millisecond.
local function take_of(account, most)
  local queue, rows, slots = callbacks_of(prefix, account), {}, {}
  local ends, gone = {}, {}
  check_callbacks(queue)
  local url = redis.call('HGET', queue.base .. K.CALLBACK, 'url') or ''
  local free, _, most_fail = free_calls(queue)
  for _, schedule in ipairs(due_callbacks(queue, math.min(most, free))) do
    local key = queue.base .. schedule
    local n, stored = #rows, redis.pcall('HMGET', key, 'r', 'o', 'c', 'w')
    if stored.err or stored[1] then
      ends[#ends + 1], ends[#ends + 2] = lease_end, schedule
    else
      gone[#gone + 1] = schedule
    end
    -- A damaged one waits for a lease, and does not block others.
    if stored[1] and stored[2] and stored[3] then
      local answer = stored[4] or ''
      rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = schedule, unpack(stored, 1, 3)
      rows[n + 5] = answer
      if most_fail then
        slots[#slots + 1] = math.floor((counts_at + #slots * FAILURE_MS) * 1000)
      end
      room_bytes = room_bytes - #stored[1] - #answer
    end
    if room_bytes <= 0 then
      break
    end
  end
  hold_callbacks(queue, ends)
  if #gone > 0 then
    take_out_callbacks(queue, gone)
  end
  if #rows > 0 then
    order[#order + 1] = {account .. '#', rows, url, slots}
  end
  return #ends / 2
end

-- When claims look at an account's callbacks again (ms); nil: none is pending.
local function next_of(account)
  local queue = callbacks_of(prefix, account)
  local first = tonumber(redis.call('ZRANGE', queue.pending, 0, 0, 'WITHSCORES')[2] or '')
  if not first or first > now then
    return first
  end
  local free, at = free_calls(queue)
  if free < 1 then
    first = at or tonumber(redis.call('ZRANGE', queue.calling, string.format('(%.3f', now), '+inf',
      'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2])
  end
  return first
end

local left, ours = math.max(1, math.floor(room / 10)), {}
local due_turns = redis.pcall('ZRANGE', prefix .. K.CALLBACK_HEADS, '(-inf', due_by, 'BYSCORE',
  'LIMIT', 0, most_accounts + count_passed_over)
for _, account in ipairs(due_turns) do
  if not passed_over[account] then
    ours[#ours + 1] = account
  end
end
for place, account in ipairs(ours) do
  if left > 0 and room_bytes > 0 then
    local sound, taken = not (is_parked and is_parked(account)), 0
    if sound then
      sound, taken = pcall(take_of, account, math.ceil(left / (#ours - place + 1)))
    end
    if sound then
      left, room = left - taken, room - taken
      local at = next_of(account)
      turn_callbacks(prefix, account, at and math.max(at, now - (#ours - place) / 1000))
    else
      damaged[#damaged + 1] = account
      turn_callbacks(prefix, account, lease_end)
    end
  end
end
if not due_turns.err then
  local first = tonumber(redis.call('ZRANGE', prefix .. K.CALLBACK_HEADS, '(-inf', '+inf',
    'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2] or '')
  look_again(prefix, K.CALLBACK_TURN, first and string.format('%.3f', math.max(first, now)))
else
  look_again(prefix, K.CALLBACK_TURN, lease_end)
end
