-- Claims at once all that is due in an account's lanes, where it fits in and no limit, calm or
-- pause holds any of these lanes: then none delays another, and they need no turns. The store
-- stands afterwards as if each lane had been looked at by itself. Needs claim.lua.

--@include lifecycle/row/heads
local FEW = 8 -- so many are read without a count of them first
-- An account's lanes share with what it has without one.
local count_accounts = 0
shares = {}
for _, name in ipairs(names) do
  local account = account_of[name] or name
  count_accounts = count_accounts + (shares[account] and 0 or 1)
  shares[account] = (shares[account] or 0) + 1
end
for account, count in pairs(shares) do
  shares[account] = math.max(1, math.floor(room / count_accounts / count))
end

local are_set = {} -- accounts of which a lane whose turn has come has settings or a state
-- Reads what is due in an account's lanes, up to `most`; nil: these need turns, as one of them has
-- settings or a state, or more is due, or a schedule is held already, has expired or is damaged.
-- Raises if a key is damaged that a claim or an end writes.
local function read_free(account, most)
  local base = prefix .. account .. ':'
  local laned, held, tried = base .. K.LANED, base .. K.HELD, base .. K.TRIED
  local heads = base .. K.LANE_HEADS
  local due = redis.call('ZRANGE', laned, '-inf', due_by, 'BYSCORE', 'LIMIT', 0, FEW + 1,
    'WITHSCORES')
  local count = #due / 2
  if count > FEW then
    count = redis.call('ZCOUNT', laned, '-inf', due_by)
  end
  if count > most then
    return nil
  end
  local looks = redis.call('ZRANGE', heads, '(-inf', '+inf', 'BYSCORE', 'LIMIT', 0, count + 1,
    'WITHSCORES')
  local states, next_turn = {}, math.huge
  for i = 1, #looks, 2 do
    local at = tonumber(looks[i + 1])
    if at > due_by then
      next_turn = at
      break
    end
    states[#states + 1] = base .. K.LANE .. looks[i]
  end
  if #states == 0 or #states > count then
    return nil
  elseif redis.call('EXISTS', unpack(states)) > 0 then
    are_set[account] = true
    return nil
  end
  local met = {} -- lane -> what is due in it
  for i = 1, 2 * #states, 2 do
    met[looks[i]] = {moves = false, rows = false}
  end
  redis.call('ZCARD', base .. K.LANES)
  redis.call('ZCARD', held)
  local is_tried = redis.call('HLEN', tried) > 0
  if count > FEW then
    due = redis.call('ZRANGE', laned, '-inf', due_by, 'BYSCORE', 'WITHSCORES')
  end
  local lanes, bytes, ends, newly_held = {}, 0, {}, {}
  for i = 1, #due, 2 do
    local schedule, at = due[i], tonumber(due[i + 1])
    local request = redis.call('HGET', base .. schedule, 'r')
    local name, _, expires_ms = lane_of(request)
    local lane = met[name or '']
    -- Only leases end at other than whole milliseconds.
    if not lane or at % 1 > 0 or (expires_ms > 0 and expires_ms <= math.max(at, now)) then
      return nil
    end
    local moves, rows = lane.moves, lane.rows
    if rows then
      local n = #rows
      moves[n + 1], moves[n + 2], rows[n + 1], rows[n + 2] = runs_until, schedule, schedule, request
    else
      lane.moves, lane.rows = {runs_until, schedule}, {schedule, request}
      lanes[#lanes + 1], lanes[#lanes + 2] = lane, name
    end
    ends[i], ends[i + 1], newly_held[i], newly_held[i + 1] = held_until, schedule, due[i + 1],
      schedule
    bytes = bytes + #request
  end
  if #lanes < 2 * #states or (count > 1 and bytes > room_bytes) then
    return nil -- a lane's turn has come for another reason
  end
  -- When claims look at each lane next: the first one left is due, or the first lease ends.
  looks = {}
  for i = 1, #lanes, 2 do
    local members, taken = base .. K.LANE_QUEUE .. lanes[i + 1], #lanes[i].rows / 2
    local at = math.ceil(lease_end)
    if redis.call('ZCARD', members) > taken then
      -- Those that are taken come before all others that wait.
      local waits = redis.call('ZRANGE', members, 0, '+inf', 'BYSCORE', 'LIMIT', taken, 1,
        'WITHSCORES')[2]
      local runs = redis.call('ZRANGE', members, '(0', '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1,
        'WITHSCORES')[2]
      at = math.min(at, tonumber(waits or at), runs and math.ceil(-tonumber(runs)) or at)
      at = math.max(at, now)
    end
    looks[i], looks[i + 1], lanes[i + 1] = at, lanes[i + 1], members
    next_turn = math.min(next_turn, at)
  end
  local used = is_tried and {}
  if is_tried then
    local schedules = {}
    for i = 1, #due, 2 do
      schedules[#schedules + 1] = due[i]
    end
    for i, attempts in ipairs(redis.call('HMGET', tried, unpack(schedules))) do
      used[schedules[i]] = attempts
    end
  end
  return {queue = {waiting = laned, held = held, tried = tried}, base = base, heads = heads,
    lanes = lanes, bytes = bytes, first_due = due[2], ends = ends, newly_held = newly_held,
    looks = looks, next_turn = next_turn, used = used}
end

-- Claims what was read. Returns how many, and that no more may follow.
take_free = function(account)
  local plan = free[account]
  local lanes, used, tried = plan.lanes, plan.used, {}
  if #plan.ends > 2 and plan.bytes > room_bytes then
    plan.next_turn = tonumber(plan.first_due) -- others took the room
    return 0, false
  end
  for i = 1, #lanes, 2 do
    local lane, part = lanes[i], {account .. '/' .. plan.looks[i + 1], lanes[i].rows, {}}
    order[#order + 1] = part
    if used then
      part[2] = {}
      for n = 1, #lane.rows, 2 do
        local schedule = lane.rows[n]
        local attempt = add(part, plan.base, schedule, lane.rows[n + 1], false, used[schedule])
        if attempt > 1 then
          tried[#tried + 1], tried[#tried + 2] = schedule, attempt
        end
      end
    end
    each_thousand('ZADD', lanes[i + 1], lane.moves)
  end
  room_bytes = used and room_bytes or room_bytes - plan.bytes -- `add` took them already
  hold(plan.queue, plan.ends, plan.newly_held, tried)
  each_thousand('ZADD', plan.heads, plan.looks)
  return #plan.ends / 2, false
end

free = {}
for _, account in pairs(account_of) do
  if not only and not (resumed_at and resumed_at(account)) then
    local sound, plan = pcall(read_free, account, shares[account])
    free[account] = sound and plan or nil
  end
  need_turns = need_turns or not free[account]
end
