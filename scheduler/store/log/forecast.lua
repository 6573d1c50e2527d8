#!lua flags=no-writes
-- How many schedules are due in each of some columns of time.
-- KEYS[1]  the account's prefix
-- ARGV     where the first column begins (ms), how wide each is (ms), how many there are
-- Returns  {now (us), {how many in each column}}: of a column that is over none, and what is overdue
--          in that of this moment
--@include now
--@include number
local waiting = KEYS[1] .. K.WAITING
local from, step, columns = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
-- In `waiting`, what a worker holds stands at its lease's end, which is the nearest future.
local unseen = redis.call('ZCARD', KEYS[1] .. K.HELD)
local due = {}
for i = 1, columns do
  local begin, ends = from + (i - 1) * step, from + i * step
  due[i] = 0
  if ends > now_ms then
    local first = begin <= now_ms and '-inf' or whole(begin)
    local count = redis.call('ZCOUNT', waiting, first, '(' .. whole(ends))
    local hidden = begin <= now_ms + 60000 and math.min(count, unseen) or 0
    unseen = unseen - hidden
    due[i] = count - hidden
  end
end
return {now_us, due}
