#!lua flags=no-writes
-- How an account stands at this moment, and what is coming.
-- KEYS[1]  the account's prefix
-- ARGV[1]  how many minutes to look ahead, from the beginning of this one
-- ARGV[2…] bounds of lateness (ms), rising; what is later than the first of them is overdue
-- Returns  {now (us), credits, waiting, held by workers, due within a minute from now,
--          {how many are due in each minute}, {how many are later than each bound and not than the
--          next}, the oldest overdue one's triggerAt ('': there is none)}; what is overdue counts in
--          the first minute
--@include now
local waiting = KEYS[1] .. K.WAITING
local held = redis.call('ZCARD', KEYS[1] .. K.HELD)
local credits = tonumber(redis.call('HGET', KEYS[1] .. K.ACCOUNT, 'credits') or '0')
-- In `waiting`, what a worker holds stands at its lease's end, which is the nearest future.
local unseen = held

local function visible(from, to)
  local count = redis.call('ZCOUNT', waiting, from, to)
  local hidden = math.min(count, unseen)
  unseen = unseen - hidden
  return count - hidden
end

local this_minute = now_ms - now_ms % 60000
local minutes = {visible('-inf', '(' .. (this_minute + 60000))}
for i = 1, tonumber(ARGV[1]) - 1 do
  minutes[i + 1] = visible(this_minute + i * 60000, '(' .. (this_minute + (i + 1) * 60000))
end
local soon = redis.call('ZCOUNT', waiting, '-inf', now_ms + 60000)
local all = redis.call('ZCARD', waiting)

-- What a worker holds whose lease has ended is overdue as well: its triggerAt stands in `held`.
local overdue = {}
for i = 2, #ARGV do
  local next_ms = ARGV[i + 1] and (now_ms - ARGV[i + 1]) or '-inf'
  overdue[i - 1] = redis.call('ZCOUNT', waiting, next_ms, '(' .. (now_ms - ARGV[i]))
end
local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
local since = ''
if first[2] and tonumber(first[2]) < now_ms - ARGV[2] then
  since = redis.call('ZSCORE', KEYS[1] .. K.HELD, first[1]) or first[2]
end
return {now_us, credits, math.max(0, all - held), held, math.max(0, soon - held), minutes,
  overdue, since}
