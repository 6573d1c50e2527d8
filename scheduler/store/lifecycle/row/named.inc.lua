-- What `put` does for named rows.

-- What the schedule of a row weighs (bytes).
named.weight = function(row)
  return plain_weight(row) + ARGV[row + 5]
end

-- Whether a lane is one more than its account may have. If not, it counts among them from here on.
named.is_lane_beyond = function(account, lane)
  local name = account.base .. K.LANES
  if lane == '' or account.lanes and account.lanes[lane] then
    return false
  elseif not account.lanes then
    account.lanes, account.lane_room = {}, S.MOST_LANES - redis.call('ZCARD', name)
  end
  if not redis.call('ZSCORE', name, lane) then
    if account.lane_room < 1 then
      return true
    end
    account.lane_room = account.lane_room - 1
  end
  account.lanes[lane] = true
  return false
end

-- Why the schedule of a row cannot be stored; nil: it can.
named.refusal = function(account, row)
  if account.left < 1 then
    return V.UNPAID
  elseif not has_room(account, named.weight(row)) then
    return V.NO_ROOM
  elseif named.is_lane_beyond(account, ARGV[row + 3]) then
    return V.TOO_MANY_LANES
  end
end

-- A member of `references` comes (in `referred`) or goes (in `unreferred`).
local function refer(account, list, reference, schedule)
  local members = account[list] or {}
  members[#members + 1], account[list] = reference .. '\0' .. schedule, members
end

-- Takes up the schedule of a row, which is stored under `key`. Returns its place in `new`.
named.take = function(account, key, row)
  local place, lane, reference = take_plain(account, key, row), ARGV[row + 3], ARGV[row + 4]
  if lane ~= '' then
    account.laned = account.laned or {}
    account.laned[place] = lane
  end
  if reference ~= '' then
    refer(account, 'referred', reference, ARGV[row])
  end
  account.weight = account.weight + ARGV[row + 5]
  return place
end

-- Why one that waits cannot get the request of a row, as `exchange` has them; nil: it can.
named.unfit = function(account, one, row, request)
  if ARGV[row + 3] ~= one.lane and named.is_lane_beyond(account, ARGV[row + 3]) then
    return V.TOO_MANY_LANES
  elseif not has_room(account, #request - one.size + ARGV[row + 5] - one.weighs) then
    return V.NO_ROOM
  end
end

-- Takes up a schedule that waits and gets the request of a row. one: its id, its key, the size of
-- its request, lane, reference and what these weigh, all as stored. Its attempt is written if it
-- has one. It keeps its moment if the row has none.
named.exchange = function(account, one, row, request)
  local lane, reference, weighs = ARGV[row + 3], ARGV[row + 4], tonumber(ARGV[row + 5])
  account.weight = account.weight + #request - one.size + weighs - one.weighs
  if one.reference ~= reference and one.reference ~= '' then
    refer(account, 'unreferred', one.reference, one.schedule)
  end
  if one.reference ~= reference and reference ~= '' then
    refer(account, 'referred', reference, one.schedule)
  end
  one.request, one.size, one.weighs, one.reference = request, #request, weighs, reference
  one.due, one.next_lane = ARGV[row + 1], lane
  if one.place then -- it is one of the new ones
    account.new[one.place + 1], account.waiting[one.place] = request, one.due
    account.laned = account.laned or {}
    account.laned[one.place] = lane ~= '' and lane or nil
    account.earliest = math.min(account.earliest, one.due)
    return
  end
  account.moved = account.moved or {}
  account.moved[one.key] = one
end

-- The queues of an account, of which one is a lane or loses some: {queue, flat: when due (ms) and
-- schedule, earliest, those that leave it}. Raises if one of them is damaged.
named.parts_of = function(account)
  local parts, by_lane = {}, {}
  local function part_of(lane)
    local part = by_lane[lane]
    if not part then
      local queue = lane ~= '' and queue_of(account.prefix, account.name .. '/' .. lane)
        or account.queue
      part = {queue = queue, due = {}, earliest = math.huge, gone = {}}
      by_lane[lane], parts[#parts + 1] = part, part
      check_queue(queue)
    end
    return part
  end
  local function put_in(lane, at, schedule)
    local part = part_of(lane)
    part.due[#part.due + 1], part.due[#part.due + 2] = at, schedule
    part.earliest = math.min(part.earliest, at)
  end
  local waiting, laned = account.waiting, account.laned or {}
  for n = 1, #waiting, 2 do
    put_in(laned[n] or '', waiting[n], waiting[n + 1])
  end
  for _, one in pairs(account.moved or {}) do
    if one.lane ~= one.next_lane then
      local before = part_of(one.lane)
      table.insert(before.gone, one.schedule)
      if one.due == '' then
        one.due = tonumber(redis.call('ZSCORE', before.queue.waiting, one.schedule) or '') or now_ms
      end
    end
    if one.due ~= '' then
      put_in(one.next_lane, one.due, one.schedule)
    end
  end
  return parts
end
