#!lua flags=no-writes
-- Reads a lane, or a page of lanes by name, at one moment.
-- KEYS[1]  the account's prefix
-- ARGV     lane; or the lane behind which the page begins ('': at the first), and most lanes
-- Returns  {now (us), for each lane {lane, digest of its settings (''; of a page), values of
--          `lane`'s fields, tat (us), gate (ms) and calm (ms), waiting, due, running, when the
--          first and the last that wait are due (flat, schedule and ms)}; {lane} if it is damaged}
--@include shared/now
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
  local members, now = base .. K.LANE_QUEUE .. lane, string.format('-%.3f', now_us / 1000)
  local lost = redis.call('ZCOUNT', members, now, '(0')
  local waiting = redis.call('ZCOUNT', members, 0, '+inf')
  local due_now = waiting > 0 and redis.call('ZCOUNT', members, 0, now_ms) or 0
  local held = redis.call('ZCARD', members) - lost - waiting
  local first, last = {}, {}
  if waiting > 0 then
    first = redis.call('ZRANGE', members, held + lost, held + lost, 'WITHSCORES')
    last = redis.call('ZRANGE', members, -1, -1, 'WITHSCORES')
  end
  if lost > 0 then
    local one = redis.call('ZRANGE', members, held + lost - 1, held + lost - 1)[1]
    local due = redis.call('ZSCORE', base .. K.HELD, one) or now_ms
    if not first[1] or tonumber(due) < tonumber(first[2]) then
      first = {one, due}
    end
    last = last[1] and last or first
  end
  read[4], read[5], read[6] = waiting + lost, due_now + lost, held
  read[7], read[8] = first, last
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
