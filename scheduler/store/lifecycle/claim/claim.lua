#!lua flags=allow-oom
-- Claims due schedules: moves each one to the end of a lease, so that those of a lost worker
-- become due again by themselves. The lease's end is the claim's token: no other claim of the same
-- schedule has it. A repeat claims others; those of a lost reply wait for the end of their lease.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  lease (ms)
-- ARGV[2]  most schedules to claim
-- ARGV[3]  most bytes of packed requests to claim; one is claimed whatever it weighs
-- ARGV[4]  most accounts to take them from
-- ARGV[5]  ahead (ms): claims schedules due within so long from now; < 0: those due for so long
-- ARGV[6]  when it was asked for (ms): leases that ended later are not taken over (0: none is), for
--          workers may have been unable to prolong them while a late claim waited
-- ARGV[7]  '' for a worker's claim; an account for an operator's, though it is suspended or the
--          shard on hold, and whatever its lanes allow: ARGV[5] is then the moment by which its
--          schedules were due
-- ARGV[8…] accounts to pass over, which hold more than their share of the worker
-- Writes   <prefix>backlog for a second, if due ones are left: it calls other workers to help
-- Returns  {now (us), when to look next (ms; -1: nothing waits, -2: on hold), token (us), for each
--          account, or <account>/<lane>: {that, {schedule, packed request, …}, {place among these,
--          attempt, the attempt before ('': it is not retried), … of those beyond their first
--          attempt}, and, where they may not start as soon as they are due: {from when on each may
--          (us)}, how much later the lane's rate allows (us; 0: no rate), 1 if its parallelism is
--          limited; or, for <account>#: {that, {schedule, packed request, outcome, its callback's
--          state, the target's answer ('': none), … of those whose callback is due}, the account's
--          URL ('': none), {from when on each may start (us); empty: at once}}}, accounts with
--          damaged data, of which not all was claimed}
--@include shared/now
--@include lifecycle/row/queue
local prefix = KEYS[1]
local now = now_us / 1000
-- Never a whole millisecond, as what waits stands at.
local token = now_us + ARGV[1] * 1000
token = token % 1000 == 0 and token + 1 or token
local lease_end = token / 1000
local held_until = string.format('%.3f', lease_end) -- once: each number that is written costs that
local room, room_bytes, most_accounts = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local only = ARGV[7] ~= '' and ARGV[7]
local due_by = only and tonumber(ARGV[5]) or now + ARGV[5]
local asked_at = math.min(tonumber(ARGV[6]), now)
local heads = prefix .. K.HEADS
local is_unusual = redis.call('EXISTS', prefix .. K.HOLD, prefix .. K.PARKED,
  prefix .. K.RESUMED) > 0
if is_unusual and not only and redis.call('EXISTS', prefix .. K.HOLD) == 1 then
  return {now_us, '-2', token, {}, {}}
end
local claimed, order = {}, {} -- queue's name -> its part of the reply; the parts in order
local passed_over, count_passed_over = {}, #ARGV - 7
for i = 8, #ARGV do
  passed_over[ARGV[i]] = true
end

-- Whether the store could not record how an account's schedules end. Checks that once per lease.
local is_parked = nil
if is_unusual and redis.pcall('ZCARD', prefix .. K.PARKED) ~= 0 then
--@include log/append
  local room = 2 ^ 40 -- more than any number gains in one call
  -- Raises unless `end` could record anything of the account now; a claim reads the other keys.
  local function check_recordable(base)
    local at = read_log(base, room, '', {room, room, room}).at
    for _, bytes in ipairs(redis.call('HVALS', base .. K.EXPIRING)) do
      plus(bytes, room)
    end
    for _, key in ipairs({K.MINUTE .. math.floor(at / 60000), K.HOUR .. math.floor(at / 3600000),
      K.DAY .. math.floor(at / 86400000)}) do
      local stored = redis.call('HGETALL', base .. key)
      for i = 1, #stored, 2 do
        -- A bucket's sums, or a number beside them.
        local sums = tonumber(stored[i]) and cmsgpack.unpack(stored[i + 1]) or {stored[i + 1]}
        for _, sum in pairs(sums) do
          plus(sum, room)
        end
      end
    end
    plus(redis.call('HGET', base .. K.ACCOUNT, 'bytes'), room)
    redis.call('ZCARD', base .. K.FAILED)
    redis.call('ZCARD', base .. K.REFERENCES)
    redis.call('ZCARD', base .. K.FAILED_REFERENCES)
    redis.call('HLEN', base .. K.CALLBACK)
    redis.call('ZCARD', base .. K.CALLBACKS)
    redis.call('ZCARD', base .. K.CALLING)
    redis.call('ZCARD', prefix .. K.CALLBACK_HEADS)
  end
  is_parked = function(account)
    local look_at_ms = redis.pcall('ZSCORE', prefix .. K.PARKED, account)
    if type(look_at_ms) ~= 'string' then
      return false
    end
    if tonumber(look_at_ms) <= now_ms then
      if pcall(check_recordable, prefix .. account .. ':') then
        redis.call('ZREM', prefix .. K.PARKED, account)
        return false
      end
      redis.call('ZADD', prefix .. K.PARKED, lease_end, account)
    end
    return true
  end
end

-- When a pause of an account ended (ms); nil: nothing of it waits since then.
local resumed, resumed_at = {}, nil
if is_unusual then
  resumed_at = function(account)
    if resumed[account] == nil then
      local at = redis.pcall('ZSCORE', prefix .. K.RESUMED, account)
      resumed[account] = type(at) == 'string' and tonumber(at)
    end
    return resumed[account] or nil
  end
end

-- Adds a schedule to a part of the reply. used: attempts before, where it is retried, was released
-- or lost. Returns its attempt.
local function add(part, base, schedule, request, is_held, used)
  local rows, later = part[2], part[3]
  local n = #rows
  rows[n + 1], rows[n + 2] = schedule, request
  room_bytes = room_bytes - #request
  local made = used and tonumber(used)
  if not made or made > 2 ^ 31 then
    made = is_held and 1 or 0
  end
  if made > 0 then
    local before = used and redis.call('HGET', base .. schedule, 'n') or ''
    later[#later + 1], later[#later + 2], later[#later + 3] = n / 2, made + 1, before
  end
  return made + 1
end

-- Claims from a stretch of an account's due ones. Returns how many it looked at, and how many of
-- these it left to the workers that hold them.
local function take_from(account, first, most)
  local queue = queue_of(prefix, account)
  local due = redis.call('ZRANGE', queue.waiting, '-inf', due_by, 'BYSCORE', 'LIMIT', first, most,
    'WITHSCORES')
  if #due == 0 then
    return 0, 0
  end
  local schedules, is_any_held = {}, false
  for i = 1, #due, 2 do
    schedules[(i + 1) / 2] = due[i]
    -- Only leases end at other than whole milliseconds.
    is_any_held = is_any_held or string.find(due[i + 1], '.', 1, true)
  end
  redis.call('ZCARD', queue.held)
  local held_since = is_any_held and redis.call('ZMSCORE', queue.held, unpack(schedules)) or {}
  local used = redis.call('EXISTS', queue.tried) == 1
    and redis.call('HMGET', queue.tried, unpack(schedules)) or {}
  if not claimed[account] then
    claimed[account] = {account, {}, {}}
    order[#order + 1] = claimed[account]
  end
  local part, opened = claimed[account], resumed_at and resumed_at(account)
  local slots = opened and (part[4] or {})
  local visible_again, newly_held, tried, left = {}, {}, {}, 0
  for i, schedule in ipairs(schedules) do
    local score = due[2 * i]
    if held_since[i] and tonumber(score) > asked_at then
      left = left + 1
    elseif room_bytes <= 0 then
      break
    else
      visible_again[#visible_again + 1] = held_until
      visible_again[#visible_again + 1] = schedule
      local request = redis.pcall('HGET', queue.base .. schedule, 'r')
      -- Only in a damaged store is it none: it waits for a lease, and does not block others.
      if type(request) == 'string' then
        local attempt = add(part, queue.base, schedule, request, held_since[i], used[i])
        if attempt > 1 then
          tried[#tried + 1], tried[#tried + 2] = schedule, attempt
        end
        if not held_since[i] then
          newly_held[#newly_held + 1], newly_held[#newly_held + 2] = score, schedule
        end
        if opened then
          slots[#slots + 1] = math.max(math.min(held_since[i] or score, due_by), opened) * 1000
          part[4], part[5], part[6] = slots, 0, 0
        end
      end
    end
  end
  hold(queue, visible_again, newly_held, tried)
  return #schedules, left
end

-- Claims up to `most` of an account; looks past those left to other workers, a few times at most.
-- Returns how many were claimed, and whether there may be more.
local function take(account, most)
  local taken, skipped = 0, 0
  for _ = 1, 8 do
    local wanted = most - taken
    local looked_at, left = take_from(account, skipped, wanted)
    taken, skipped = taken + looked_at - left, skipped + left
    if looked_at < wanted then
      return taken, false
    end
    if left == 0 or room_bytes <= 0 then
      break
    end
  end
  return taken, true
end

-- Sets when to look at an account next, and returns when its earliest schedule is due. With a
-- backlog it goes behind accounts that have waited longer: floods cannot starve a neighbour. Those
-- served now keep their order by a microsecond each; or names would decide.
local function set_head(account, served_after)
  if only and redis.call('ZSCORE', heads, account) == '-inf' then
    return math.huge
  end
  local first = redis.call('ZRANGE', prefix .. account .. ':' .. K.WAITING, 0, 0, 'WITHSCORES')
  local due, turn = tonumber(first[2]), now - served_after / 1000
  look_again(prefix, account, due and math.max(due, turn))
  return due or math.huge
end

-- Those at -inf are suspended or paused, and stay there: nothing moves a head to a later moment but
-- this. A name that ends with a slash means an account's lanes, and one that begins with an
-- exclamation mark that the account's pause ends. K.CALLBACK_TURN is the turn of all callbacks.
local due_heads = only and {only, only .. '/'} or redis.call('ZRANGE', heads, '(-inf', due_by,
  'BYSCORE', 'LIMIT', 0, most_accounts + 3 * count_passed_over)
local names, account_of, damaged = {}, {}, {} -- account_of: of names that mean lanes
local meets_callbacks = false
for _, name in ipairs(due_heads) do
  local account, sign = name, string.byte(name)
  if sign == 35 then
    -- With little room they take turns with all else.
    meets_callbacks, account = room >= 10 or #names == 0, nil
  elseif sign == 33 then
--@include lifecycle/row/control
    account = string.sub(name, 2)
    local at = redis.call('ZSCORE', heads, name)
    if pcall(check_account, prefix, account) then
      end_pause(prefix, account, at)
    else
      look_again(prefix, name, lease_end)
      damaged[#damaged + 1] = account
    end
    account = nil
  elseif string.byte(name, -1) == 47 then
    account = string.sub(name, 1, -2)
  end
  if account and not passed_over[account] and #names < most_accounts then
    names[#names + 1] = name
    if account ~= name then
      account_of[name] = account
    end
  end
end

if meets_callbacks then
--@include lifecycle/callback/claim_callbacks
end

local take_lanes, settle_lanes, shares
-- free: by accounts whose lanes need no turns, what is due in them.
local free, take_free, need_turns = nil, nil, false
if next(account_of) then
  local runs_until = '-' .. held_until
--@include lifecycle/claim/claim_free_lanes
  if need_turns then
--@include lifecycle/claim/claim_lanes
  end
end

-- An account that is parked, or that `take` cannot read (it reads before it writes), waits for a
-- lease; the others of its shard do not.
local served, backlogged = {}, {}
local share = math.max(1, math.floor(room / math.max(1, #names)))
for _, name in ipairs(names) do
  if room > 0 and room_bytes > 0 then
    local account = account_of[name] or name
    local sound, taken, more = not (is_parked and is_parked(account)), 0, false
    if sound then
      local most = math.min(shares and shares[account] or share, room)
      sound, taken, more = pcall(account == name and take or free[account] and take_free
        or take_lanes, account, most)
    end
    if sound then
      room = room - taken
      served[#served + 1] = name
      if more then
        backlogged[#backlogged + 1] = name
      end
    else
      damaged[#damaged + 1] = account
      if not only then
        look_again(prefix, name, lease_end)
      end
    end
  end
end
for _, name in ipairs(backlogged) do
  if room > 0 and room_bytes > 0 then
    room = room - (account_of[name] and take_lanes or take)(account_of[name] or name, room)
  end
end

local late_since = math.huge
for place, name in ipairs(served) do
  local settle, account = account_of[name] and settle_lanes or set_head, account_of[name] or name
  local plan = free and account ~= name and free[account]
  if plan then
    look_again(prefix, name, math.max(plan.next_turn, now - (#served - place) / 1000))
    late_since = math.min(late_since, plan.next_turn)
  else
    late_since = math.min(late_since, settle(account, #served - place))
  end
end
if late_since < now then
  redis.call('SET', prefix .. K.BACKLOG, late_since, 'PX', 1000)
end
for account, at in pairs(resumed) do
  -- No schedule that waits now was due before its account's pause ended.
  local base, waits = prefix .. account .. ':', false
  for _, name in ipairs(at and {K.WAITING, K.LANED} or {}) do
    local first = redis.pcall('ZRANGE', base .. name, 0, 0, 'WITHSCORES')[2]
    waits = waits or first and tonumber(first) <= at
  end
  if at and not waits then
    redis.call('ZREM', prefix .. K.RESUMED, account)
  end
end

-- Whether a head is not only of accounts that are passed over.
local function is_ours(name)
  if name ~= K.CALLBACK_TURN then
    return not passed_over[(string.gsub(name, '[!/]', ''))]
  end
  for _, account in ipairs(redis.call('ZRANGE', prefix .. K.CALLBACK_HEADS, '(-inf', due_by,
    'BYSCORE', 'LIMIT', 0, count_passed_over + 1)) do
    if not passed_over[account] then
      return true
    end
  end
  return false
end

local next_look = -1
local coming = redis.call('ZRANGE', heads, '(-inf', '+inf', 'BYSCORE', 'LIMIT', 0,
  3 * count_passed_over + 1, 'WITHSCORES')
for i = #coming - 1, 1, -2 do
  if count_passed_over == 0 or is_ours(coming[i]) then
    next_look = coming[i + 1]
  end
end
return {now_us, tostring(next_look), token, order, damaged}
