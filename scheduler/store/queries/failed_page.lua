#!lua flags=no-writes
-- Reads on in an account's dead letters, from a place in the order of their end and id.
-- KEYS[1]  the account's prefix
-- ARGV     place: when it ended (ms) and id ('' comes before every id), '1' to read downwards or
--          '0', most members to read, most bytes of packed requests, and of
--          what their targets said
-- Returns  {now (us), flat and in order: schedule, when it ended (ms), packed request ('': it is
--          not kept any more), outcome, what its target said ('': nothing that is kept); five for
--          each, '1' if there may be more, else '0'}
--@include now
--@include queries/stretch
local base = KEYS[1]
local place = {ms = tonumber(ARGV[1]), id = ARGV[2], down = ARGV[3] == '1'}
local most, room_bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
local found, flat = members(base .. K.FAILED, place, most), {}
local left = #found == 2 * most

for i = 1, #found, 2 do
  if room_bytes <= 0 then
    left = true
    break
  end
  local stored = redis.pcall('HMGET', base .. K.SCHEDULE .. found[i], 'r', 'o', 's')
  local n = #flat
  flat[n + 1], flat[n + 2] = found[i], found[i + 1]
  flat[n + 3], flat[n + 4] = stored[1] or '', stored[2] or ''
  flat[n + 5] = stored[3] or ''
  room_bytes = room_bytes - #flat[n + 3] - #flat[n + 5]
end
return {now_us, flat, left and '1' or '0'}
