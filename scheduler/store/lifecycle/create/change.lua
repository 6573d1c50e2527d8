#!lua
-- Changes a waiting schedule's request; between two attempts a new triggerAt moves the next one.
-- Safe to repeat with the same operation for a minute.
-- KEYS[1]  the shard's prefix
-- ARGV     account, schedule, operation, SHA-1 of the packed request that the caller read, the new
--          one, its triggerAt (ms; '': the same); for each plan with a quota: plan, bytes
-- Returns  {verdict, said}: DONE (the attempt before; '': none), ENDED (the outcome), UNKNOWN,
--          HELD, CHANGED, NO_ROOM or TOO_MANY_LANES ('')
--@include shared/now
--@include lifecycle/row/place
--@include shared/moment
--@include shared/operation
--@include lifecycle/row/weight
local reference_of, reference_weight
--@include lifecycle/row/reference
local base, schedule, due = KEYS[1] .. ARGV[1] .. ':', ARGV[2], tonumber(ARGV[6])
local key = base .. K.SCHEDULE .. schedule
local stored = redis.call('HMGET', key, 'r', 'o', 'n')
local attempt = stored[3] or ''
if not stored[1] then
  return {V.UNKNOWN, ''}
end
if was_done(base, ARGV[3]) then
  return {V.DONE, attempt}
end
if stored[2] then
  return {V.ENDED, stored[2]}
end
if redis.call('ZSCORE', base .. K.HELD, schedule) then
  return {V.HELD, ''}
end
if redis.sha1hex(stored[1]) ~= ARGV[4] then
  return {V.CHANGED, ''}
end
local account = redis.call('HMGET', base .. K.ACCOUNT, 'plan', 'bytes', 'settled')
if not account[1] then
  return {V.UNKNOWN, ''}
end
local more = #ARGV[5] - #stored[1] + reference_weight(ARGV[5]) - reference_weight(stored[1])
local bytes = stored_bytes(base, account[2], account[3]) + more
for i = 7, #ARGV, 2 do
  if ARGV[i] == account[1] and more > 0 and bytes > tonumber(ARGV[i + 1]) then
    return {V.NO_ROOM, ''}
  end
end
local lane_before, lane = lane_of(stored[1]), lane_of(ARGV[5])
local function queue_by(name)
  return queue_of(KEYS[1], name and ARGV[1] .. '/' .. name or ARGV[1])
end
local queue_before, queue = queue_by(lane_before), queue_by(lane)
check_heads(KEYS[1])
check_queue(queue)
if lane ~= lane_before then
  check_queue(queue_before)
  if lane and not of_lanes().has_room(queue) then
    return {V.TOO_MANY_LANES, ''}
  end
end
local references = base .. K.REFERENCES
local before, after = reference_of(stored[1]), reference_of(ARGV[5])
if before ~= after then
  redis.call('ZCARD', references)
end
local weight = added(base .. K.ACCOUNT, {'bytes'}, {more})

redis.call('HSET', key, 'r', ARGV[5])
write(weight)
if before and before ~= after then
  redis.call('ZREM', references, before .. '\0' .. schedule)
end
if after and before ~= after then
  redis.call('ZADD', references, 0, after .. '\0' .. schedule)
end
if due then
  if stored[3] then
    attempt = string.sub(attempt, 1, 6) .. moment(due) .. string.sub(attempt, 13)
    redis.call('HSET', key, 'n', attempt)
  end
end
if lane ~= lane_before then
  due = due or tonumber(redis.call('ZSCORE', queue_before.waiting, schedule) or '') or now_ms
  leave(queue_before, {schedule})
end
if due then
  wait(queue, {due, schedule}, due)
end
note_done(base, ARGV[3])
return {V.DONE, attempt}
