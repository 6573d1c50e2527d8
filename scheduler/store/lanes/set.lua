#!lua flags=allow-oom
-- Sets a lane: its limits, note and pause. Without any, and with nothing in it, it is not there. Safe
-- to repeat with the same operation for a minute.
-- KEYS[1]  the shard's prefix
-- ARGV     account, lane, operation, digest of the settings that the caller read, '1' to end its
--          calm, '2' to forget how far its rate is used, who sets it, the values of `lane`'s fields
--          ('': none; of a pause's begin '1')
-- Returns  DONE, CHANGED: the settings are others, UNKNOWN: no such account, TOO_MANY_LANES
--@include shared/now
--@include lifecycle/row/place
--@include lifecycle/row/control
--@include shared/operation
--@include lanes/lane
--@include events/note
local MESSAGE_MS = 60000 -- limits that come with a message wait so long for the message itself
local base, lane = KEYS[1] .. ARGV[1] .. ':', ARGV[2]
local key, queue = base .. K.LANE .. lane, queue_of(KEYS[1], ARGV[1] .. '/' .. lane)
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return V.UNKNOWN
end
if was_done(base, ARGV[3]) then
  return V.DONE
end
local before, ended = settings_of(key, FIELDS, PAUSED)
if digest_of(before, LAST) ~= ARGV[4] then
  return V.CHANGED
end
check_heads(KEYS[1])
check_queue(queue)
redis.call('ZCARD', base .. K.LANES_PAUSED)  -- raises if it is damaged
local calm_until = number(redis.call('HGET', key, 'calm'))
local ends_calm, frees_rate = ARGV[5] == '1' and calm_until > now_ms, ARGV[5] == '2'
local tat = tonumber(redis.call('HGET', key, 'tat') or '') or 0
local who, after = ARGV[6], {unpack(ARGV, 7)}
local starts_anew = ends_calm or frees_rate or (before[PAUSED] ~= '' and after[PAUSED] == '')
local is_set = table.concat(before, ' ', FIRST_LIMIT, PAUSED - 1)
  ~= table.concat(after, ' ', FIRST_LIMIT, PAUSED - 1)
for i = FIRST_LIMIT, LAST_LIMIT do
  starts_anew = starts_anew or before[i] ~= after[i]
end
if after[PAUSED] ~= '' then
  after[PAUSED] = before[PAUSED] ~= '' and before[PAUSED] or now_ms
end

if table.concat(after) ~= '' and not enlist(queue) then
  return V.TOO_MANY_LANES
end
if after[1] == '' and after[UNPINNED] ~= '' then
  after[1] = whole(now_ms + MESSAGE_MS)
end
write_settings(key, FIELDS, after)
if before[INTERVAL] ~= after[INTERVAL] and tat > now_us then
  -- As many starts are not paid for yet as before, but each costs what the new rate says.
  local owed = (tat - now_us) / (tonumber(before[INTERVAL]) or math.huge)
  local more = owed * (tonumber(after[INTERVAL]) or 0)
  redis.call('HSET', key, 'tat', string.format('%.0f', now_us + more))
end
if ends_calm then
  redis.call('HDEL', key, 'calm')
end
if frees_rate then
  redis.call('HDEL', key, 'tat')
end
if starts_anew or ended then
  -- Schedules that the lane held back until then are not late.
  redis.call('HSET', key, 'gate', starts_anew and now_ms or ended)
end
redis.call('ZREMRANGEBYSCORE', base .. K.LANES_PAUSED, '-inf', now_ms)
if after[PAUSED] ~= '' then
  local until_ms = after[PAUSED + 1]
  redis.call('ZADD', base .. K.LANES_PAUSED, until_ms ~= '' and until_ms or '+inf', lane)
else
  redis.call('ZREM', base .. K.LANES_PAUSED, lane)
end
if after[PAUSED] ~= ''
  and table.concat(before, ' ', PAUSED, BY) ~= table.concat(after, ' ', PAUSED, BY) then
  note_own(base, {k = 'lane-paused', t = lane, w = who ~= '' and who or after[BY],
    u = after[PAUSED + 1]})
elseif after[PAUSED] == '' and before[PAUSED] ~= '' then
  note_own(base, {k = 'lane-resumed', t = lane, w = who, s = before[PAUSED]})
end
if is_set and after[UNPINNED] == '' then -- messages would push out other events
  note_own(base, {k = 'lane-set', t = lane, w = who})
end
relook(queue)
note_done(base, ARGV[3])
return V.DONE
