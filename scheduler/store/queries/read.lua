#!lua flags=no-writes
-- Reads schedules of an account, as many as are within the bytes; the first of them whatever it
-- weighs.
-- KEYS[1]  the account's prefix
-- ARGV[1]  most bytes of packed requests, and of what their targets said
-- ARGV[2…] schedules
-- Returns  flat, for each that was read: packed request (nil: there is none; '': what lies there
--          is no schedule), outcome (nil: it has not ended), the schedule that it was replayed as
--          (nil: none), its attempt before if it is retried (nil: it is not), what its target said
--          (nil: nothing that is kept)
local key, room_bytes, flat = KEYS[1] .. K.SCHEDULE, tonumber(ARGV[1]), {}
for i = 2, #ARGV do
  if room_bytes <= 0 then
    break
  end
  local stored, n = redis.pcall('HMGET', key .. ARGV[i], 'r', 'o', 'a', 'n', 's'), #flat
  -- A hole would end the reply: false is nil to those who get it.
  for i = 1, 5 do
    flat[n + i] = stored[i] or false
  end
  if stored.err then
    flat[n + 1] = ''
  end
  room_bytes = room_bytes - #(stored[1] or '') - #(stored[5] or '')
end
return flat
