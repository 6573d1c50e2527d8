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

-- Those of a lost worker wait as well, until the lane may start them: from the end of their leases.
local function read_lane(lane)
  local key, waiting = base .. K.LANE .. lane, base .. K.LANE_WAITING .. lane
  local running = base .. K.LANE_RUNNING .. lane
  local held = redis.call('ZCOUNT', running, string.format('(%.3f', now_us / 1000), '+inf')
  local lost = redis.call('ZCARD', running) - held
  local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
  local last = redis.call('ZRANGE', waiting, -1, -1, 'WITHSCORES')
  if lost > 0 then
    local one = redis.call('ZRANGE', running, 0, 0)[1]
    local due = redis.call('ZSCORE', base .. K.HELD, one) or now_ms
    if not first[1] or tonumber(due) < tonumber(first[2]) then
      first = {one, due}
    end
    last = last[1] and last or first
  end
  local values, digest = settings_of(key, FIELDS)
  local state = redis.call('HMGET', key, 'tat', 'gate', 'calm')
  return {lane, digest, values, state[1] or '', state[2] or '', state[3] or '',
    redis.call('ZCARD', waiting) + lost, redis.call('ZCOUNT', waiting, '-inf', now_ms) + lost, held,
    first, last}
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
