--@include lifecycle/row/reference
-- Takes up the reference of the last one in an account's `new`, if it has one.
refer = function(account, key, row)
  local reference, referred = reference_of(ARGV[row + 2]), account.referred or {}
  account.weight = account.weight + reference_weight(ARGV[row + 2])
  if not reference then
    return
  end
  referred[#referred + 1], referred[#referred + 2] = 0, reference .. '\0' .. ARGV[row]
  account.referred = referred
  if account.met then
    local met = account.met[reference] or {}
    met[#met + 1] = {schedule = ARGV[row], key = key, place = #account.new - 1,
      due = ARGV[row + 1], size = #ARGV[row + 2], heads = reference_weight(ARGV[row + 2])}
    account.met[reference] = met
  end
end

lane_in = lane_of
-- Whether a lane is one more than its account may have.
local function is_beyond(account, lane)
  local name = account.base .. K.LANES
  if not lane or account.lanes and account.lanes[lane] then
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

-- Whether that is so of the lane of a request, if it has one.
is_lane_beyond = function(account, request)
  return is_beyond(account, lane_of(request))
end

-- Whether that is so of any of a group, of which nothing is stored then. Where that cannot be read,
-- the account is damaged.
has_too_many_lanes = function(group)
  local account, lanes = group.account, {unpack(later_of(group, 'lanes'))}
  for n = 1, group.count do
    if not there[keys[group.keys + n]] then
      lanes[#lanes + 1] = lane_of(ARGV[group.first + 3 * n - 1])
    end
  end
  for _, lane in ipairs(lanes) do
    local sound, beyond = pcall(is_beyond, account, lane)
    account.sound = account.sound and sound
    if not sound or beyond then
      account.lanes = nil -- the next group begins anew
      return sound
    end
  end
  return false
end

-- Schedules that wait anew in each queue of an account, or leave it for another one, after checks
-- of those queues, if some are lanes. {queue, flat: when due (ms) and schedule; earliest, gone}
parts_of = function(account)
  local parts, by_lane = {}, {}
  local function part_of(lane)
    local part = by_lane[lane or '']
    if not part then
      local queue = lane and queue_of(prefix, account.name .. '/' .. lane) or account.queue
      part = {queue = queue, due = {}, earliest = math.huge, gone = {}}
      by_lane[lane or ''], parts[#parts + 1] = part, part
    end
    return part
  end
  local function put(lane, at, schedule)
    local part = part_of(lane)
    part.due[#part.due + 1], part.due[#part.due + 2] = at, schedule
    part.earliest = math.min(part.earliest, at)
  end
  for n = 1, #account.new, 2 do
    put(lane_of(account.new[n + 1]), account.waiting[n], account.waiting[n + 1])
  end
  for _, one in pairs(account.moved or {}) do
    local lane = lane_of(one.request)
    put(lane, one.due, one.schedule)
    if one.lane ~= lane then
      table.insert(part_of(one.lane).gone, one.schedule)
    end
  end
  for _, part in ipairs(#parts > 1 and parts or parts[1].queue.lane and parts or {}) do
    check_queue(part.queue)
  end
  return parts
end
