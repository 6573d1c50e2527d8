#!lua flags=allow-oom
-- Clears a lane: its limits, note, pause and calm. Its schedules go on. Safe to repeat with the
-- same operation for a minute.
-- KEYS[1]  the shard's prefix
-- ARGV     account, lane, operation, digest of the settings that the caller read ('': any), who
--          clears it
-- Returns  {DONE or CHANGED: the settings are others, how many wait in it}
--@include shared/now
--@include lifecycle/row/place
--@include lifecycle/row/control
--@include shared/operation
--@include lanes/lane
--@include events/note
local base, lane = KEYS[1] .. ARGV[1] .. ':', ARGV[2]
local key, queue = base .. K.LANE .. lane, queue_of(KEYS[1], ARGV[1] .. '/' .. lane)
local waiting = redis.call('ZCOUNT', queue.members, string.format('-%.3f', now_us / 1000), '+inf')
if was_done(base, ARGV[3]) then
  return {V.DONE, waiting}
elseif ARGV[4] ~= '' and digest_of(settings_of(key, FIELDS, PAUSED), LAST) ~= ARGV[4] then
  return {V.CHANGED, waiting}
elseif redis.call('EXISTS', key) == 0 then
  return {V.DONE, waiting}
end
check_heads(KEYS[1])
check_queue(queue)
redis.call('ZCARD', base .. K.LANES_PAUSED)  -- raises if it is damaged
local paused = redis.pcall('HMGET', key, 'paused', 'until')  -- it may be damaged

if paused[1] and (tonumber(paused[2] or '') or math.huge) > now_ms then
  note_own(base, {k = 'lane-resumed', t = lane, w = ARGV[5], s = paused[1]})
end
note_own(base, {k = 'lane-cleared', t = lane, w = ARGV[5]})
redis.call('UNLINK', key)
redis.call('ZREM', base .. K.LANES_PAUSED, lane)
if waiting > 0 then
  -- Schedules that the lane held back until now are not late.
  redis.call('HSET', key, 'gate', now_ms)
end
relook(queue)
note_done(base, ARGV[3], 60000)
return {V.DONE, waiting}
