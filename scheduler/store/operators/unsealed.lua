#!lua flags=no-writes
-- What of an account's schedules is not sealed with one key: requests, and what targets said.
-- KEYS[1]  the account's prefix
-- ARGV     what begins all that this key sealed, most bytes to read (the one that goes beyond it is
--          still read), schedules
-- Returns  {how many were looked at, {schedule, its field, what that holds, …}, {schedule whose key
--          is of another kind, …}}
local head, room_bytes, found, damaged = ARGV[1], tonumber(ARGV[2]), {}, {}
for i = 3, #ARGV do
  local stored = redis.pcall('HMGET', KEYS[1] .. K.SCHEDULE .. ARGV[i], 'r', 's')
  if stored.err then
    damaged[#damaged + 1], stored = ARGV[i], {}
  end
  for place, field in ipairs({'r', 's'}) do
    local sealed = stored[place]
    if sealed then
      room_bytes = room_bytes - #sealed
      if string.sub(sealed, 1, #head) ~= head then
        local n = #found
        found[n + 1], found[n + 2], found[n + 3] = ARGV[i], field, sealed
      end
    end
  end
  if room_bytes <= 0 then
    return {i - 2, found, damaged}
  end
end
return {#ARGV - 2, found, damaged}
