-- Claims from an account's lanes, in turn, so that none delays another. Needs claim.lua.

local MOST_LANES = 64 -- of an account, for one claim
local opened = {} -- account -> its lanes that are looked at, in order, and what becomes of them all
local by_us = due_by * 1000

-- Lanes whose turn is due, and the time (ms) of each turn, in order. The times end with that of the
-- next lane.
local function due_lanes(base)
  local names, turns = {}, {}
  local due = redis.call('ZRANGE', base .. K.LANE_HEADS, '(-inf', '+inf', 'BYSCORE', 'LIMIT', 0,
    MOST_LANES + 1, 'WITHSCORES')
  for i = 2, #due, 2 do
    local place, at = i / 2, tonumber(due[i])
    turns[place] = at
    if at > due_by or place > MOST_LANES then
      break
    end
    names[place] = due[i - 1]
  end
  return names, turns
end

-- The same for an operator: lanes with due schedules.
local function lanes_with_due(base)
  redis.call('ZCARD', base .. K.LANE_HEADS)
  local names, met = {}, {}
  local due = redis.call('ZRANGE', base .. K.LANED, '-inf', due_by, 'BYSCORE', 'LIMIT', 0, room)
  for _, schedule in ipairs(due) do
    local request = redis.pcall('HGET', base .. schedule, 'r')
    local sound, name = pcall(lane_of, type(request) == 'string' and request or ' ')
    if sound and name and not met[name] then
      met[name], names[#names + 1] = true, name
    end
  end
  return names, {}
end

-- Reads lanes; raises if a key is damaged that all of an account's share, and that they or an end
-- of theirs write: what cannot be held must not be fired again and again.
local function open_lanes(account)
  local base, states, queues = prefix .. account .. ':', {}, {}
  redis.call('ZCARD', base .. K.LANES)
  redis.call('ZCARD', base .. K.LANED)
  redis.call('ZCARD', base .. K.HELD)
  local found = {all = queue_of(prefix, account), ends = {}, newly_held = {}, tried = {},
    is_tried = redis.call('HLEN', base .. K.TRIED) > 0}
  found.all.waiting = base .. K.LANED
  local due, turns = (only and lanes_with_due or due_lanes)(base)
  found.next_turn = turns[#due + 1] or math.huge
  for i, name in ipairs(due) do
    queues[i] = of_lanes().queue_of(prefix, account, name)
    states[i] = queues[i].state
  end
  local is_set = are_set[account] or #states > 0 and redis.call('EXISTS', unpack(states)) > 0
  for i, queue in ipairs(queues) do
    local sound, lane = pcall(of_lanes().read, queue, not is_set)
    if sound then
      lane.account, lane.turn = found, turns[i]
      lane.from_ms = math.max(lane.gate, resumed_at and resumed_at(account) or 0)
      lane.is_free = only
      found[#found + 1] = lane
    else
      damaged[#damaged + 1] = account
      redis.call('ZADD', queue.heads, lease_end, queue.lane)
      found.next_turn = math.min(found.next_turn, lease_end)
    end
  end
  opened[account] = found
  return found
end

-- From when on the rate allows the next start (us).
local function paid_us(lane)
  return lane.interval and lane.tat - (lane.burst - 1) * lane.interval or 0
end

-- How many may start by then, at most.
local function free_places(lane)
  if lane.is_free then
    return room
  elseif lane.from_ms * 1000 > by_us then
    return 0
  end
  local paid = lane.interval and math.floor((by_us - paid_us(lane)) / lane.interval) + 1
  return math.min(lane.places, paid or math.huge)
end

-- Which schedules to look at, flat, with when they are due or their leases end (ms) and one more:
-- first those of lost workers, then those that wait, which include some that are held only to be
-- ended. Returns also until when they are to be taken (ms), and whether they are lost.
local function stretch_of(lane, most)
  local members = lane.queue.members
  if not lane.ends then
    local found = redis.call('ZRANGE', members, 0, most, 'WITHSCORES')
    if not found[2] or string.byte(found[2]) ~= 45 then
      lane.ends = math.huge -- nothing runs, as in most lanes
      return found, due_by, false
    end
    lane.ends = of_lanes().first_end(lane.queue)
  end
  if lane.ends <= asked_at then
    local found = redis.call('ZRANGE', members, '(0', '-inf', 'BYSCORE', 'REV', 'LIMIT', lane.lost,
      most + 1, 'WITHSCORES')
    for i = 2, #found, 2 do
      found[i] = string.sub(found[i], 2)
    end
    return found, asked_at, true
  end
  return redis.call('ZRANGE', members, 0, '+inf', 'BYSCORE', 'LIMIT', lane.seen, most + 1,
    'WITHSCORES'), due_by, false
end

-- From when on a schedule may start (us), and whether it takes a place then; nil: not in this
-- claim. One that has expired, or of which a lost worker may have sent its only attempt, just ends.
local function slot_of(lane, request, due_ms, is_held)
  local sound, _, once, expires_ms = pcall(lane_of, request)
  local slot = math.max(due_ms, lane.from_ms) * 1000
  if is_held and sound and once then
    return slot, false
  elseif lane.is_free then
    return slot, true
  end
  slot = math.max(slot, paid_us(lane))
  local start = math.max(slot, now_us)
  if sound and expires_ms and expires_ms > 0 and expires_ms * 1000 <= math.min(start, by_us) then
    return (expires_ms + 1) * 1000, false
  elseif lane.places < 1 or slot > by_us then
    return nil
  end
  lane.places = lane.places - 1
  if lane.interval then
    lane.tat = math.max(start, lane.tat) + lane.interval
  end
  return slot, true
end

-- Since when those of a stretch are held, and the attempts that they have had.
local function read_rows(lane, schedules, is_any_held)
  local all = lane.account.all
  return is_any_held and redis.call('ZMSCORE', all.held, unpack(schedules)) or {},
    lane.account.is_tried and redis.call('HMGET', all.tried, unpack(schedules)) or {}
end

-- Puts a slot into a lane's part of the reply, as the last one. Schedules before the first slot may
-- start as soon as they are due.
local function note_slot(lane, part, slot, has_place)
  local slots = part[4] or {}
  if #slots > 0 or lane.interval or lane.from_ms > 0 or not has_place then
    for i = #slots + 1, #part[2] / 2 - 1 do
      slots[i] = 0
    end
    slots[#slots + 1] = slot
    part[4], part[5] = slots, lane.interval and lane.slack or 0
    part[6] = lane.parallelism and 1 or 0
  end
end

-- Claims from a stretch of a lane. Returns how many it claimed, and whether more may follow.
local function take_stretch(lane, most)
  local queue, found, latest, is_lost = lane.queue, stretch_of(lane, most)
  lane.was_lost = is_lost
  local schedules, scores, is_any_held = {}, {}, is_lost
  for i = 1, math.min(#found, 2 * most), 2 do
    local score = tonumber(found[i + 1])
    if score > latest then
      break
    end
    local place = #schedules + 1
    schedules[place], scores[place] = found[i], score
    -- Only leases end at other than whole milliseconds.
    is_any_held = is_any_held or score % 1 > 0
  end
  local held_since, used = {}, {}
  if #schedules > 0 then
    held_since, used = read_rows(lane, schedules, is_any_held)
  end
  local account, part = lane.account, claimed[queue.name]
  local ends, newly_held, tried, moves = account.ends, account.newly_held, account.tried, lane.moves
  local taken, passed, is_over = 0, 0, false
  for i, schedule in ipairs(schedules) do
    local score, since = scores[i], held_since[i]
    if since and score > asked_at then
      lane.left_at = lane.left_at or score
    elseif room_bytes <= 0 then
      is_over = true
      break
    else
      local request = redis.pcall('HGET', queue.base .. schedule, 'r')
      local is_there = type(request) == 'string'
      local slot, has_place
      if is_there then
        -- One that is held was due, whatever the clock says that may have been set back since.
        local due_ms = since and math.min(tonumber(since), now) or score
        slot, has_place = slot_of(lane, request, due_ms, since)
        if not slot then
          is_over = true
          break
        end
        if not part then
          part = {queue.name, {}, {}}
          claimed[queue.name], order[#order + 1] = part, part
          if lane.parallelism then
            part[4], part[5], part[6] = {}, 0, 1
          end
        end
        local attempt = add(part, queue.base, schedule, request, since, used[i])
        if attempt > 1 then
          tried[#tried + 1], tried[#tried + 2] = schedule, attempt
        end
        if not since then
          newly_held[#newly_held + 1], newly_held[#newly_held + 2] = found[2 * i], schedule
        end
        note_slot(lane, part, slot, has_place)
      end
      taken = taken + 1
      ends[#ends + 1], ends[#ends + 2] = held_until, schedule
      -- One that has no place is found where others wait if its worker is lost.
      moves[#moves + 1], moves[#moves + 2] = has_place and runs_until or held_until, schedule
      lane.has_placed = lane.has_placed or has_place
      lane.has_ending = lane.has_ending or not has_place
    end
    passed = i
  end
  local next_at = tonumber(found[2 * passed + 2] or '') or math.huge
  if is_lost then
    lane.lost, lane.ends = lane.lost + passed, next_at
  else
    lane.seen, lane.first = lane.seen + passed, next_at
  end
  return taken, not is_over and (is_lost or next_at <= latest)
end

-- Claims up to `most` of a lane; returns how many, and whether more may start now.
local function take_lane(lane, most)
  local taken, count, more = 0, 0, false
  for _ = 1, 8 do
    local free = free_places(lane)
    if taken > 0 and free < 1 and not lane.was_lost then
      return taken, false
    end
    -- Those before took no slot if there is one now: they had expired, and so may many have.
    count, more = take_stretch(lane, math.min(most - taken, math.max(1, free, 2 * count)))
    taken = taken + count
    if not more then
      return taken, false
    elseif taken >= most or room_bytes <= 0 then
      break
    end
  end
  return taken, true
end

take_lanes = function(account, most)
  local found, taken, again = opened[account] or open_lanes(account), 0, {}
  local share = math.max(1, math.floor(most / math.max(1, #found)))
  for _, lane in ipairs(found) do
    if taken < most and room_bytes > 0 and not lane.is_done then
      lane.is_served = true
      local sound, count, more = pcall(take_lane, lane, math.min(share, most - taken))
      if not sound then
        lane.is_damaged, lane.is_done = true, true
        damaged[#damaged + 1] = account
      else
        taken, lane.is_done = taken + count, not more
        again[#again + 1] = more and lane or nil
      end
    end
  end
  for _, lane in ipairs(again) do
    if taken < most and room_bytes > 0 then
      local count, more = take_lane(lane, most - taken)
      taken, lane.is_done = taken + count, not more
    end
  end
  local is_backlogged = #found == MOST_LANES
  for _, lane in ipairs(found) do
    is_backlogged = is_backlogged or not lane.is_done
  end
  return taken, is_backlogged
end

-- Writes what was taken of a lane, and when what is left of it is due, or its first lease ends.
local function hold_lane(lane)
  each_thousand('ZADD', lane.queue.members, lane.moves)
  if lane.first then
    lane.first = math.min(lane.first, lane.left_at or math.huge,
      lane.has_ending and lease_end or math.huge)
    lane.ends = math.min(lane.ends, lane.has_placed and lease_end or math.huge)
  end
end

-- As `set_head`, of lanes.
settle_lanes = function(account, served_after)
  local base, found, looks = prefix .. account .. ':', opened[account], {}
  local next_turn = found.next_turn
  hold(found.all, found.ends, found.newly_held, found.tried)
  for place, lane in ipairs(found) do
    hold_lane(lane)
    if lane.is_damaged then
      looks[#looks + 1], looks[#looks + 2] = lease_end, lane.queue.lane
      next_turn = math.min(next_turn, lease_end)
    elseif only then
      of_lanes().relook(lane.queue)
    elseif lane.is_served then
      local at = of_lanes().settle(lane, now - (#found - place) / 1000, looks)
      next_turn = math.min(next_turn, at)
    else
      next_turn = math.min(next_turn, lane.turn)
    end
  end
  each_thousand('ZADD', base .. K.LANE_HEADS, looks)
  if only then
    return math.huge
  end
  local turn = now - served_after / 1000
  look_again(prefix, account .. '/', next_turn < math.huge and math.max(next_turn, turn) or nil)
  return next_turn
end
