#!lua flags=no-writes
-- Reads a lane, or a page of lanes by name, at one moment.
-- KEYS[1]  the account's prefix
-- ARGV     lane; or the lane behind which the page begins ('': at the first), and most lanes
-- Returns  {now (us), for each lane {lane, digest of the settings, values of `lane`'s fields, tat
--          (us), gate (ms), calm (ms), waiting, due, running, when the first and the last that wait
--          are due (ms, flat with their schedules)}; {lane} if it is damaged}
--@include now
--@include lanes/lane
local base = KEYS[1]

local function read_lane(lane)
  local key, waiting = base .. K.LANE .. lane, base .. K.LANE_WAITING .. lane
  local values, digest = settings_of(key, FIELDS)
  local state = redis.call('HMGET', key, 'tat', 'gate', 'calm')
  return {lane, digest, values, state[1] or '', state[2] or '', state[3] or '',
    redis.call('ZCARD', waiting), redis.call('ZCOUNT', waiting, '-inf', now_ms),
    redis.call('ZCOUNT', base .. K.LANE_RUNNING .. lane, string.format('(%.3f', now_us / 1000),
      '+inf'),
    redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES'),
    redis.call('ZRANGE', waiting, -1, -1, 'WITHSCORES')}
end

local lanes = {ARGV[1]}
if ARGV[2] then
  lanes = redis.call('ZRANGE', base .. K.LANES, '(' .. ARGV[1], '+', 'BYLEX', 'LIMIT', 0, ARGV[2])
end
local found = {}
for i, lane in ipairs(lanes) do
  local sound, read = pcall(read_lane, lane)
  found[i] = sound and read or {lane}
end
return {now_us, found}
