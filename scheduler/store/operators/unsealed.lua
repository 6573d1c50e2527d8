#!lua flags=no-writes
-- Those of an account's schedules whose request is not sealed with one key.
-- KEYS[1]  the account's prefix
-- ARGV     what begins all that this key sealed, most bytes to read (the one that goes beyond it is
--          still read), schedules
-- Returns  {how many were looked at, {schedule, packed request, …}}
local head, room_bytes, found = ARGV[1], tonumber(ARGV[2]), {}
for i = 3, #ARGV do
  local request = redis.call('HGET', KEYS[1] .. K.SCHEDULE .. ARGV[i], 'r')
  if request then
    room_bytes = room_bytes - #request
    if string.sub(request, 1, #head) ~= head then
      found[#found + 1], found[#found + 2] = ARGV[i], request
    end
  end
  if room_bytes <= 0 then
    return {i - 2, found}
  end
end
return {#ARGV - 2, found}
