#!lua flags=no-writes
-- Reads on in an account's schedules that have not ended, from a place in the order of triggerAt
-- and id. The place need not exist any more: it is found by bisection over the ranks.
-- KEYS[1]  the account's prefix
-- ARGV     place: triggerAt (ms) and id ('' comes before every id), '1' to read downwards or '0',
--          most members to read of each set, most bytes of packed requests of each, a part that a
--          packed request must have, in small letters ('': any)
-- Returns  {of those that wait, of those that a worker holds}, each {flat and in order: schedule,
--          triggerAt (ms), packed request ('': not this one); three for each, '1' if there may be
--          more, else '0'}
local base = KEYS[1]
local place_ms, place_id = tonumber(ARGV[1]), ARGV[2]
local down, most, part = ARGV[3] == '1', tonumber(ARGV[4]), ARGV[6]

-- How many members come before the place; or, `inclusive`, at it and before.
local function rank_of_place(set, inclusive)
  local low, high = 0, redis.call('ZCARD', set)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local member = redis.call('ZRANGE', set, middle, middle, 'WITHSCORES')
    local score, id = tonumber(member[2]), member[1]
    local before = score < place_ms or (score == place_ms and id < place_id)
    if before or (inclusive and score == place_ms and id == place_id) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

local function members(set)
  if down then
    local rank = rank_of_place(set, false)
    if rank == 0 then
      return {}
    end
    local first = redis.call('ZCARD', set) - rank
    return redis.call('ZRANGE', set, first, first + most - 1, 'REV', 'WITHSCORES')
  end
  local first = rank_of_place(set, true)
  return redis.call('ZRANGE', set, first, first + most - 1, 'WITHSCORES')
end

-- In `waiting`, one that a worker holds stands at its lease's end: it is read from `held`, and
-- here only its place is told, with an empty request.
local function page(set, held)
  local found, flat = members(set), {}
  local left, room_bytes = #found == 2 * most, tonumber(ARGV[5])
  local elsewhere = {}
  if #found > 0 and not held then
    local ids = {}
    for i = 1, #found, 2 do
      ids[#ids + 1] = found[i]
    end
    elsewhere = redis.call('ZMSCORE', base .. K.HELD, unpack(ids))
  end
  for i = 1, #found, 2 do
    if room_bytes <= 0 then
      left = true
      break
    end
    local shown = not elsewhere[(i + 1) / 2] and redis.call('HGET', base .. K.SCHEDULE .. found[i], 'r')
    room_bytes = room_bytes - (shown and #shown or 0)
    if shown and part ~= '' and not string.find(string.lower(shown), part, 1, true) then
      shown = false
    end
    flat[#flat + 1] = found[i]
    flat[#flat + 1] = found[i + 1]
    flat[#flat + 1] = shown or ''
  end
  return {flat, left and '1' or '0'}
end

return {page(base .. K.WAITING, false), page(base .. K.HELD, true)}
