#!lua flags=no-writes
-- Reads on in an account's schedules that have not ended, from a place in the order of when they are
-- due (triggerAt, or the next attempt) and id.
-- KEYS[1]  the account's prefix
-- ARGV     place: when due (ms) and id ('' comes before every id), '1' to read downwards or '0',
--          most members to read of each set, most bytes of packed requests of each, a part that a
--          packed request must have, if it is not sealed, in small letters ('': any)
-- Returns  {of those that wait, of those that a worker holds}, each {flat and in order: schedule,
--          when it is due (ms), packed request ('': not this one), its attempt before if it is
--          retried, else '', what its target said to that, else ''; five for each, '1' if there may
--          be more, else '0', how many bytes of packed requests were looked at}
--@include queries/stretch
local base = KEYS[1]
local place = {ms = tonumber(ARGV[1]), id = ARGV[2], down = ARGV[3] == '1'}
local most, part = tonumber(ARGV[4]), ARGV[6]

-- What is sealed tells nothing here, and is not msgpack: that has no use for its first byte.
local function may_have(packed)
  return part == '' or string.byte(packed) == 193
    or string.find(string.lower(packed), part, 1, true) ~= nil
end

-- In `waiting`, one that a worker holds stands at its lease's end: it is read from `held`, and
-- here only its place is told, with an empty request.
local function page(set, held)
  local found, flat = members(set, place, most), {}
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
    local shown, attempt, said = false, false, false
    if not elsewhere[(i + 1) / 2] then
      local key = base .. K.SCHEDULE .. found[i]
      shown, attempt, said = unpack(redis.pcall('HMGET', key, 'r', 'n', 's'))
    end
    room_bytes = room_bytes - (shown and #shown or 0)
    if shown and not may_have(shown) then
      shown = false
    end
    flat[#flat + 1] = found[i]
    flat[#flat + 1] = found[i + 1]
    flat[#flat + 1] = shown or ''
    flat[#flat + 1] = attempt or ''
    flat[#flat + 1] = said or ''
  end
  return {flat, left and '1' or '0', tonumber(ARGV[5]) - room_bytes}
end

return {page(base .. K.WAITING, false), page(base .. K.HELD, true)}
