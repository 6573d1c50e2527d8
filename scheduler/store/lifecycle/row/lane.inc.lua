-- Where the schedules of a lane stand (keys.py), and when it may start the next one. Needs `place`.

local ENDLESS = 2 ^ 53 -- the gate (ms) of a lane that is paused without an end
local MOST_CALM_MS = 3600000

local common = {} -- what the queues of an account's lanes share: a call may meet a thousand of them

lanes.queue_of = function(prefix, account, lane)
  local shared = common[account]
  if not shared then
    local base = prefix .. account .. ':'
    shared = {__index = {prefix = prefix, account = account, base = base, waiting = base .. K.LANED,
      held = base .. K.HELD, tried = base .. K.TRIED, heads = base .. K.LANE_HEADS,
      lanes = base .. K.LANES, of_members = base .. K.LANE_QUEUE, of_state = base .. K.LANE}}
    common[account] = shared
  end
  local base = shared.__index
  return setmetatable({lane = lane, name = account .. '/' .. lane,
    members = base.of_members .. lane, state = base.of_state .. lane}, shared)
end

lanes.check = function(queue)
  redis.call('ZCARD', queue.members)
  redis.call('HLEN', queue.state)
end

-- Whether it is one of its account's lanes, or there is room for one more.
lanes.has_room = function(queue)
  return redis.call('ZSCORE', queue.lanes, queue.lane)
    or redis.call('ZCARD', queue.lanes) < S.MOST_LANES
end

-- From when on the rate allows another start (ms).
local function paid_until(interval, burst, tat)
  return interval and (tat - (burst - 1) * interval) / 1000 or 0
end

-- Claims look at a lane no later than `at` (ms).
local function look_at_lane(queue, at)
  at = math.max(at, now_ms)
  if at >= ENDLESS then
    redis.call('ZADD', queue.heads, '-inf', queue.lane)
  else
    redis.call('ZADD', queue.heads, 'LT', at, queue.lane)
    look_at(queue.prefix, queue.account .. '/', at)
  end
end

lanes.wait = function(queue, due, earliest)
  each_thousand('ZADD', queue.members, due)
  if redis.call('ZADD', queue.lanes, 0, queue.lane) == 1 then
    look_at_lane(queue, earliest) -- a new one has no settings
    return
  end
  local stored = redis.call('HMGET', queue.state, 'gate', 'interval', 'burst', 'tat')
  local paid = paid_until(tonumber(stored[2] or ''), tonumber(stored[3] or '') or 1,
    tonumber(stored[4] or '') or 0)
  look_at_lane(queue, math.max(earliest, tonumber(stored[1] or '') or 0, paid))
end

-- Leases of held schedules end at another time (ms). ends: flat, that and schedule.
lanes.prolong = function(queue, ends, lease_end)
  local moves, schedules = {}, {}
  for i = 2, #ends, 2 do
    schedules[i / 2] = ends[i]
  end
  for before = 0, #schedules - 1, 1000 do
    local last = math.min(before + 1000, #schedules)
    local scores = redis.call('ZMSCORE', queue.members, unpack(schedules, before + 1, last))
    for i, at in ipairs(scores) do
      if at then
        moves[#moves + 1] = tonumber(at) < 0 and -lease_end or lease_end
        moves[#moves + 1] = schedules[before + i]
      end
    end
  end
  each_thousand('ZADD', queue.members, moves)
  look_at_lane(queue, lease_end)
end

lanes.leave = function(queue, schedules)
  each_thousand('ZREM', queue.members, schedules)
end

-- When a lease ends (ms), by the order of those that end after a moment (ms), counted from 0; nil:
-- there are not so many.
local function lease_end_of(queue, after, place)
  local last = redis.call('ZRANGE', queue.members, after, '-inf', 'BYSCORE', 'REV', 'LIMIT', place,
    1, 'WITHSCORES')[2]
  return last and -tonumber(last)
end

local ended = nil
-- Leases that have not ended stand before this.
local function running_until()
  ended = ended or string.format('(-%.3f', now_us / 1000)
  return ended
end

-- When enough leases end that a lane with no place left has one (ms).
local function place_at(queue, places)
  return lease_end_of(queue, running_until(), 0 - places) or 0
end

-- A lane's settings and state: whether it stays when it is empty (`set`), or until when (`kept`,
-- ms), `gate`, before which nothing starts (ms), `places` for more, and of its rate `interval`,
-- `burst`, `slack`, `tat` (us). Moments that lie in the future because the clock was set back count
-- for a while at most.
lanes.read = function(queue, is_unset)
  if is_unset then
    return {queue = queue, burst = 1, tat = 0, calm = 0, shut = 0, gate = 0, places = math.huge,
      kept = 0, lost = 0, seen = 0, moves = {}}
  end
  local s = redis.call('HMGET', queue.state, 'interval', 'burst', 'tat', 'per', 'slack',
    'parallelism', 'paused', 'until', 'calm', 'gate', 'set')
  local lane = {queue = queue, interval = tonumber(s[1] or ''), burst = tonumber(s[2] or '') or 1,
    tat = tonumber(s[3] or '') or 0, slack = tonumber(s[5] or '') or 0,
    parallelism = tonumber(s[6] or ''), paused = s[7], calm = tonumber(s[9] or '') or 0,
    gate = tonumber(s[10] or '') or 0, set = s[11] == '1', kept = tonumber(s[11] or '') or 0,
    places = math.huge,
    tat_before = s[3], gate_before = tonumber(s[10] or ''), lost = 0, seen = 0, moves = {}}
  if lane.interval then
    local window = (tonumber(s[4] or '') or 0) * 1000 + lane.interval * lane.burst
    lane.tat = math.min(lane.tat, now_us + window)
  end
  lane.calm = math.min(lane.calm, now_ms + MOST_CALM_MS)
  lane.shut = lane.calm
  if lane.paused then
    local ends = tonumber(s[8] or '') or ENDLESS
    lane.paused_over = ends <= now_ms
    lane.shut = math.max(lane.shut, ends)
  end
  local gate = lane.shut
  if lane.parallelism then
    lane.places = lane.parallelism
      - redis.call('ZCOUNT', queue.members, '-inf', running_until())
    gate = math.max(gate, lane.places < 1 and place_at(queue, lane.places) or 0)
  end
  -- One that opened before the moment at which it was to open opens now: lateness counts from then.
  lane.gate = gate > now_ms and gate or math.min(lane.gate, now_ms)
  return lane
end

-- Takes a lane out of the account's in which nothing is left and nothing is kept.
local function forget(lane)
  local queue = lane.queue
  redis.call('ZREM', queue.heads, queue.lane)
  if not lane.set and (not lane.paused or lane.paused_over) then
    redis.call('ZREM', queue.lanes, queue.lane)
    redis.call('UNLINK', queue.state)
  end
end

-- When the first one that waits is due (ms; inf: none waits).
local function first_due(queue)
  local first = redis.call('ZRANGE', queue.members, 0, '+inf', 'BYSCORE', 'LIMIT', 0, 1,
    'WITHSCORES')[2]
  return first and tonumber(first) or math.huge
end

-- When the first lease ends, or has ended (ms; inf: none runs).
lanes.first_end = function(queue)
  return lease_end_of(queue, '(0', 0) or math.huge
end

-- Notes a lane's state, and when claims look at it next: when it can start something, or a lease
-- ends. With a backlog that is not before `turn` (ms); looks: takes that, as ZADD does, for the
-- caller to write. A claim knows when the first one that waits is due (lane.first), and when the
-- first lease ends (lane.ends; inf: none). Returns since when it could have started something that
-- is left (ms), or can.
lanes.settle = function(lane, turn, looks)
  local queue, fields = lane.queue, {}
  if lane.parallelism and lane.places < 1 then
    lane.gate = math.max(lane.shut, place_at(queue, lane.places))
  end
  local tat = lane.interval and string.format('%.0f', math.ceil(lane.tat))
  if tat and tat ~= lane.tat_before then
    fields = {'tat', tat}
  end
  if lane.gate > 0 and lane.gate ~= lane.gate_before then
    fields[#fields + 1], fields[#fields + 2] = 'gate', string.format('%.3f', lane.gate)
  end
  if #fields > 0 then
    redis.call('HSET', queue.state, unpack(fields))
  end
  if lane.paused_over then
    redis.call('HDEL', queue.state, 'paused', 'until', 'by', 'why')
    redis.pcall('ZREM', queue.base .. K.LANES_PAUSED, queue.lane)
  end
  local open = math.max(lane.gate, paid_until(lane.interval, lane.burst, lane.tat))
  local first = lane.first or first_due(queue)
  local ends = lane.first and lane.ends or lanes.first_end(queue)
  local at = math.max(first, open)
  if ends < math.huge then
    -- In whole milliseconds: the store reads short scores faster.
    at = math.min(at, ends > now_us / 1000 and math.ceil(ends) or math.max(ends, open))
  elseif first == math.huge and not lane.set then
    -- A calm or a pause keeps it. Limits that came with a message keep it until the message has
    -- come, and while their rate is used.
    local until_ms = math.max(lane.kept, lane.interval and math.ceil(lane.tat / 1000) or 0,
      lane.shut < ENDLESS and lane.shut or 0)
    at = until_ms > now_ms and until_ms or at
  end
  if at == math.huge then
    forget(lane)
  else
    local is_shut = lane.gate >= ENDLESS
    looks[#looks + 1] = is_shut and '-inf' or math.max(at, turn)
    looks[#looks + 1] = queue.lane
    at = is_shut and math.huge or at
  end
  return at
end

-- Recomputes the next start time of a lane, by its settings and what it has.
lanes.relook = function(queue)
  local looks = {}
  local at = lanes.settle(lanes.read(queue), now_ms, looks)
  each_thousand('ZADD', queue.heads, looks)
  if at < math.huge then
    look_at(queue.prefix, queue.account .. '/', at)
  end
end

-- After schedules left their places: another may start, or the lane is empty and counts no longer
-- among its account's.
lanes.relook_left = function(queue)
  if redis.call('EXISTS', queue.members, queue.state) == 0 then
    forget({queue = queue})
  elseif redis.call('HEXISTS', queue.state, 'parallelism') == 1
    or redis.call('EXISTS', queue.members) == 0 then
    lanes.relook(queue)
  end
end

-- Of rows of one account by lane, flat: lane, number of rows, until when it is to be calm (ms; '':
-- not).
lanes.runs_of = function(prefix, account, flat)
  local runs = {}
  for i = 1, #flat, 3 do
    runs[#runs + 1] = {queue = lanes.queue_of(prefix, account, flat[i]),
      count = tonumber(flat[i + 1]), calm_ms = tonumber(flat[i + 2])}
  end
  return runs
end

-- Gives each run its schedules, and how many come before them.
lanes.share_out = function(runs, schedules)
  local before = 0
  for _, run in ipairs(runs) do
    run.schedules, run.before = {}, before
    for i = 1, run.count do
      run.schedules[i] = schedules[before + i]
    end
    before = before + run.count
  end
end

-- Among the account's own events, that a lane begins to be calm: of a row of such events one for each
-- minute, so that they push out no others. An acknowledgement does not fail for it.
lanes.note_calm = function(queue, until_ms)
  local key = queue.base .. K.EVENTS
  local last = redis.pcall('XREVRANGE', key, '+', string.format('%.0f', now_ms - 60000), 'COUNT', 1)
  if not last.err and not (last[1] and last[1][2][2] == 'lane-calm') then
    redis.pcall('XADD', key, 'MAXLEN', K.MOST_OWN_EVENTS, '*', 'k', 'lane-calm', 't', queue.lane, 'u',
      string.format('%.0f', until_ms))
  end
end

-- A target asks that nothing starts in a lane before a moment (ms; nil: it does not). The latest
-- such moment holds, and what is claimed already starts all the same.
lanes.calm = function(queue, until_ms)
  if until_ms and until_ms > now_ms then
    until_ms = math.min(until_ms, now_ms + MOST_CALM_MS)
    local before = tonumber(redis.call('HGET', queue.state, 'calm') or '') or 0
    if before < until_ms or before > now_ms + MOST_CALM_MS then
      redis.call('HSET', queue.state, 'calm', string.format('%.0f', until_ms))
      redis.call('ZADD', queue.lanes, 0, queue.lane)
      lanes.relook(queue)
      if before <= now_ms then
        lanes.note_calm(queue, until_ms)
      end
    end
  end
end
