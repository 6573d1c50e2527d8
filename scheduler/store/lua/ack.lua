#!lua flags=allow-oom
-- Records outcomes: the schedule's end, its log entry, the indexes and the statistics, in one
-- step. Safe to repeat: the first time takes the token away. A lease that has ended and that
-- nobody took over is still acked.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  how long an ended schedule is kept (ms)
-- ARGV[2]  how long log and statistics are kept (ms)
-- ARGV[3]  most log entries of an account
-- ARGV[4]  how long single seconds are kept (ms)
-- ARGV[5…] for each: account, schedule, token, status, packed outcome, log entry,
--          response time (ms), lateness bucket, URL bucket, URL digest
-- Returns  {now (us), a code for each}: 1 recorded, 0 had ended before, -1 another holds it
--@include now
--@include append
local prefix = KEYS[1]
local limits = {ttl_ms = tonumber(ARGV[2]), most_entries = ARGV[3], oldest = {}}
local codes = {}
local ended = {} -- account's prefix -> the schedules that ended
local sums = {} -- rollup key -> {field -> increment}
local ttls = {minute = ARGV[4], hour = ARGV[2], day = ARGV[2]}

local function add(base, level, number, field, increment)
  local key = base .. level .. ':' .. number
  local rollup = sums[key]
  if not rollup then
    rollup = {ttl = ttls[level], fields = {}}
    sums[key] = rollup
  end
  rollup.fields[field] = (rollup.fields[field] or 0) + increment
end

-- Seconds within a minute, minutes within an hour, hours within a day.
local function count(base, at, mark, response_ms, lateness)
  local second = math.floor(at / 1000)
  local minute, hour = math.floor(second / 60), math.floor(second / 3600)
  local day = math.floor(hour / 24)
  local levels = {
    {'minute', minute, second % 60}, {'hour', hour, minute % 60}, {'day', day, hour % 24},
  }
  for _, level in ipairs(levels) do
    add(base, level[1], level[2], level[3] .. mark, 1)
    add(base, level[1], level[2], level[3] .. 't', response_ms)
    if level[1] ~= 'minute' then
      add(base, level[1], level[2], level[3] .. 'b' .. lateness, 1)
    end
  end
end

for i = 5, #ARGV, 10 do
  local base = prefix .. ARGV[i] .. ':'
  local schedule, status = ARGV[i + 1], ARGV[i + 3]
  local key = base .. 's:' .. schedule
  local stored = redis.call('HMGET', key, 't', 's')
  local code = stored[2] and 0 or -1
  if stored[1] == ARGV[i + 2] then
    code = 1
    local at = append(base, limits, status, ARGV[i + 5], ARGV[i + 8], ARGV[i + 9])
    redis.call('HDEL', key, 't', 'n')
    redis.call('HSET', key, 's', status, 'o', ARGV[i + 4], 'e', at)
    redis.call('PEXPIRE', key, ARGV[1])
    local those = ended[base] or {}
    ended[base] = those
    those[#those + 1] = schedule
    count(base, at, status == 'completed' and 'c' or 'f', tonumber(ARGV[i + 6]), ARGV[i + 7])
  end
  codes[#codes + 1] = code
end

for base, those in pairs(ended) do
  for i = 1, #those, 1000 do
    local last = math.min(i + 999, #those)
    redis.call('ZREM', base .. 'waiting', unpack(those, i, last))
    redis.call('ZREM', base .. 'held', unpack(those, i, last))
  end
end
for key, rollup in pairs(sums) do
  for field, increment in pairs(rollup.fields) do
    redis.call('HINCRBY', key, field, increment)
  end
  redis.call('PEXPIRE', key, rollup.ttl)
end
return {now_us, codes}
