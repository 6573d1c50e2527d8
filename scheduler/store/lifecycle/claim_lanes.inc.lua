-- Claims from an account's lanes, in turn, so that none delays another. Needs claim.lua.

--@include lifecycle/lane_head
local MOST_LANES = 64 -- of an account, for one claim
local opened = {} -- account -> its lanes that are looked at, in order
local by_us = due_by * 1000

-- An account's lanes share with what it has without one.
local count_accounts, counts = 0, {}
for _, name in ipairs(names) do
  local account = account_of[name] or name
  count_accounts = count_accounts + (counts[account] and 0 or 1)
  counts[account] = (counts[account] or 0) + 1
end
shares = {}
for account, count in pairs(counts) do
  shares[account] = math.max(1, math.floor(room / count_accounts / count))
end

-- The lanes to look at: those whose turn has come. For an operator, those of what is due.
local function due_lanes(account)
  local base, names = prefix .. account .. ':', {}
  -- What an end of them writes and a claim does not read: they must not be fired again and again.
  redis.call('ZCARD', base .. K.LANES)
  redis.call('ZCARD', base .. K.LANE_HEADS)
  if not only then
    return redis.call('ZRANGE', base .. K.LANE_HEADS, '(-inf', due_by, 'BYSCORE', 'LIMIT', 0,
      MOST_LANES)
  end
  local met = {}
  local due = redis.call('ZRANGE', base .. K.LANED, '-inf', due_by, 'BYSCORE', 'LIMIT', 0, room)
  for _, schedule in ipairs(due) do
    local request = redis.pcall('HGET', base .. K.SCHEDULE .. schedule, 'r')
    local sound, name = pcall(lane_of, type(request) == 'string' and request or ' ')
    if sound and name and not met[name] then
      met[name], names[#names + 1] = true, name
    end
  end
  return names
end

local function open_lanes(account)
  local found = {}
  for _, name in ipairs(due_lanes(account)) do
    local queue = queue_of(prefix, account .. '/' .. name)
    local sound, lane = pcall(of_lanes().read, queue)
    if sound then
      lane.left, lane.slots = 0, {}
      lane.from_ms = math.max(lane.gate, resumed_at and resumed_at(account) or 0)
      lane.is_free = only
      found[#found + 1] = lane
    else
      damaged[#damaged + 1] = account
      redis.call('ZADD', queue.heads, lease_end, name)
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
  local paid = lane.interval and math.floor((by_us - paid_us(lane)) / lane.interval) + 1 or math.huge
  return math.min(lane.places, paid)
end

-- Which schedules to look at: first those of lost workers, then those that wait, which include some
-- that are held only to be ended. Returns them with their scores, flat, and whether they are lost.
local function stretch_of(lane, most)
  if not lane.is_asked then
    local lost = redis.call('ZRANGE', lane.queue.running, '-inf', asked_at, 'BYSCORE', 'LIMIT', 0,
      most, 'WITHSCORES')
    lane.is_asked = #lost < 2 * most -- those that are taken leave this range
    if #lost > 0 then
      redis.call('ZCARD', lane.queue.lane_waiting)
      return lost, true
    end
  end
  return redis.call('ZRANGE', lane.queue.lane_waiting, '-inf', due_by, 'BYSCORE', 'LIMIT',
    lane.left, most, 'WITHSCORES'), false
end

-- From when on a schedule may start (us), and whether it takes a place then; nil: not in this claim.
-- One that has expired, or of which a lost worker may have sent its only attempt, just ends.
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

-- Claims from a stretch of a lane. Returns how many it claimed, and whether more may follow.
local function take_stretch(lane, most)
  local queue, found, is_lost = lane.queue, stretch_of(lane, most)
  lane.was_lost = is_lost
  if #found == 0 then
    return 0, false
  end
  local key, schedules = queue.base .. K.SCHEDULE, {}
  for i = 1, #found, 2 do
    schedules[#schedules + 1] = found[i]
  end
  local held_since = redis.call('ZMSCORE', queue.held, unpack(schedules))
  local used = redis.call('EXISTS', queue.tried) == 1
    and redis.call('HMGET', queue.tried, unpack(schedules)) or {}
  local ends, newly_held, tried, placed, running, ending = {}, {}, {}, {}, {}, {}
  local part, taken, is_over = claimed[queue.name], 0, false
  for i, schedule in ipairs(schedules) do
    local score, since = tonumber(found[2 * i]), held_since[i]
    if since and score > asked_at then
      lane.left = lane.left + 1
    elseif room_bytes <= 0 then
      is_over = true
      break
    else
      local request = redis.pcall('HGET', key .. schedule, 'r')
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
        end
        local attempt = add(part, key, schedule, request, since, used[i])
        if attempt > 1 then
          tried[#tried + 1], tried[#tried + 2] = schedule, attempt
        end
        if not since then
          newly_held[#newly_held + 1], newly_held[#newly_held + 2] = found[2 * i], schedule
        end
        lane.slots[#lane.slots + 1] = slot
        lane.has_slots = lane.has_slots or lane.interval or lane.from_ms > 0 or not has_place
      end
      taken = taken + 1
      ends[#ends + 1], ends[#ends + 2] = lease_end, schedule
      if has_place then
        placed[#placed + 1] = schedule
        running[#running + 1], running[#running + 2] = lease_end, schedule
      else
        ending[#ending + 1], ending[#ending + 2] = lease_end, schedule
      end
    end
  end
  if part then
    part[4], part[5] = lane.has_slots and lane.slots or {}, lane.interval and lane.slack or 0
    part[6] = lane.parallelism and 1 or 0
  end
  hold(queue, ends, newly_held, tried)
  of_lanes().hold(queue, placed, running, ending)
  return taken, not is_over and (is_lost or #schedules == most)
end

-- Claims up to `most` of a lane; returns how many, and whether more may start now.
local function take_lane(lane, most)
  local taken = 0
  for _ = 1, 8 do
    local free = free_places(lane)
    if taken > 0 and free < 1 and not lane.was_lost then
      return taken, false
    end
    local count, more = take_stretch(lane, math.min(most - taken, math.max(1, free)))
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

-- As `set_head`, of lanes.
settle_lanes = function(account, served_after)
  local base, since = prefix .. account .. ':', math.huge
  for place, lane in ipairs(opened[account] or {}) do
    if lane.is_damaged then
      redis.call('ZADD', lane.queue.heads, lease_end, lane.queue.lane)
    elseif only then
      of_lanes().relook(lane.queue)
    elseif lane.is_served then
      since = math.min(since, of_lanes().settle(lane, now - (#opened[account] - place) / 1000))
    end
  end
  if only then
    return math.huge
  end
  local first = redis.call('ZRANGE', base .. K.LANE_HEADS, '(-inf', '+inf', 'BYSCORE', 'LIMIT', 0,
    1, 'WITHSCORES')
  local at, turn = tonumber(first[2]), now - served_after / 1000
  look_again(prefix, account .. '/', at and string.format('%.3f', math.max(at, turn)))
  return math.min(since, at or math.huge)
end
