#!lua flags=no-writes
-- How an account stands at this moment.
-- KEYS[1]  the account's prefix
-- ARGV     bounds of lateness (ms), rising; what is later than the first of them is overdue
-- Returns  {now (us), credits, waiting, held by workers, due within a minute from now, {how many are
--          later than each bound and not than the next}, the oldest overdue one's triggerAt ('':
--          there is none)}
--@include now
local waiting = KEYS[1] .. K.WAITING
local held = redis.call('ZCARD', KEYS[1] .. K.HELD)
local credits = tonumber(redis.call('HGET', KEYS[1] .. K.ACCOUNT, 'credits') or '0')
local soon = redis.call('ZCOUNT', waiting, '-inf', now_ms + 60000)
local all = redis.call('ZCARD', waiting)

-- What a worker holds whose lease has ended is overdue as well: its triggerAt stands in `held`.
local overdue = {}
for i = 1, #ARGV do
  local next_ms = ARGV[i + 1] and (now_ms - ARGV[i + 1]) or '-inf'
  overdue[i] = redis.call('ZCOUNT', waiting, next_ms, '(' .. (now_ms - ARGV[i]))
end
local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
local since = ''
if first[2] and tonumber(first[2]) < now_ms - ARGV[1] then
  since = redis.call('ZSCORE', KEYS[1] .. K.HELD, first[1]) or first[2]
end
return {now_us, credits, math.max(0, all - held), held, math.max(0, soon - held), overdue, since}
