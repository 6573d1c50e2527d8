#!lua flags=no-writes
-- How an account stands at this moment, and what is coming.
-- KEYS[1]  the account's prefix
-- ARGV[1]  how many minutes to look ahead, from the beginning of this one
-- Returns  {now (us), credits, waiting, held by workers, due within a minute from now,
--          {how many are due in each minute}}; what is overdue counts in the first
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
return {now_us, credits, math.max(0, all - held), held, math.max(0, soon - held), minutes}
