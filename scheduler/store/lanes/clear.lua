#!lua flags=allow-oom
-- Clears a lane: its limits, note, pause and calm. Its schedules go on. Safe to repeat with the
-- same operation for a minute.
-- KEYS[1]  the shard's prefix
-- ARGV     account, lane, operation
-- Returns  how many wait in it
--@include shared/now
--@include lifecycle/row/place
--@include lifecycle/row/control
--@include shared/operation
--@include events/note
local base, lane = KEYS[1] .. ARGV[1] .. ':', ARGV[2]
local key, queue = base .. K.LANE .. lane, queue_of(KEYS[1], ARGV[1] .. '/' .. lane)
local waiting = redis.call('ZCOUNT', queue.members, string.format('-%.3f', now_us / 1000), '+inf')
if redis.call('EXISTS', key) == 0 or was_done(base, ARGV[3]) then
  return waiting
end
check_heads(KEYS[1])
check_queue(queue)
redis.call('ZCARD', base .. K.LANES_PAUSED)  -- raises if it is damaged
local paused = redis.pcall('HMGET', key, 'paused', 'until')  -- it may be damaged

if paused[1] and (tonumber(paused[2] or '') or math.huge) > now_ms then
  note_own(base, {k = 'lane-resumed', t = lane, s = paused[1]})
end
redis.call('UNLINK', key)
redis.call('ZREM', base .. K.LANES_PAUSED, lane)
if waiting > 0 then
  -- Schedules that the lane held back until now are not late.
  redis.call('HSET', key, 'gate', now_ms)
end
relook(queue)
note_done(base, ARGV[3], 60000)
return waiting
