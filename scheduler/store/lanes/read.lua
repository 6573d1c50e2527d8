#!lua flags=no-writes
-- Reads a lane, or a page of lanes by name, at one moment.
-- KEYS[1]  the account's prefix
-- ARGV     lane; or the lane behind which the page begins ('': at the first), and most lanes
-- Returns  {now (us), for each lane {lane, digest of its settings (''; of a page), values of
--          `lane`'s fields, tat (us), gate (ms) and calm (ms), waiting, due, running, when the
--          first and the last that wait are due (flat, schedule and ms)}; {lane} if it is damaged}
--@include now
--@include lanes/lane
local base, is_page = KEYS[1], ARGV[2]
local READ = {unpack(FIELDS)}
for _, field in ipairs({'tat', 'gate', 'calm'}) do
  READ[#READ + 1] = field
end

-- Those of a lost worker wait as well, until the lane may start them: from the end of their leases.
local function read_lane(lane, is_used)
  local values = settings_of(base .. K.LANE .. lane, READ, PAUSED)
  local read = {lane, is_page and '' or digest_of(values, LAST), values, 0, 0, 0, {}, {}}
  if not is_used then
    return read
  end
  local waiting, running = base .. K.LANE_WAITING .. lane, base .. K.LANE_RUNNING .. lane
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
  read[4] = redis.call('ZCARD', waiting) + lost
  read[5] = redis.call('ZCOUNT', waiting, '-inf', now_ms) + lost
  read[6], read[7], read[8] = held, first, last
  return read
end

local lanes = {ARGV[1]}
if is_page then
  lanes = redis.call('ZRANGE', base .. K.LANES, '(' .. ARGV[1], '+', 'BYLEX', 'LIMIT', 0, ARGV[2])
end
-- Nothing waits or runs in those without a head.
local heads = #lanes > 0 and redis.call('ZMSCORE', base .. K.LANE_HEADS, unpack(lanes))
local found = {}
for i, lane in ipairs(lanes) do
  local sound, read = pcall(read_lane, lane, heads[i])
  found[i] = sound and read or {lane}
end
return {now_us, found}
