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
local append = appender(tonumber(ARGV[2]), ARGV[3])
local codes = {}
local ended = {} -- account's prefix -> {the schedules that ended, its sums by second}

local function count(sums, second, mark, response_ms, lateness)
  local sum = sums[second]
  if not sum then
    sum = {c = 0, f = 0, t = 0, late = {}}
    sums[second] = sum
  end
  sum[mark] = sum[mark] + 1
  sum.t = sum.t + response_ms
  sum.late[lateness] = (sum.late[lateness] or 0) + 1
end

for i = 5, #ARGV, 10 do
  local base, schedule, status = prefix .. ARGV[i] .. ':', ARGV[i + 1], ARGV[i + 3]
  local key = base .. 's:' .. schedule
  local code = 1
  if redis.call('HGET', key, 't') ~= ARGV[i + 2] then
    code = redis.call('HEXISTS', key, 's') == 1 and 0 or -1
  else
    local at = append(base, status, ARGV[i + 5], ARGV[i + 8], ARGV[i + 9])
    redis.call('HSET', key, 't', '', 's', status, 'o', ARGV[i + 4], 'e', at)
    redis.call('PEXPIRE', key, ARGV[1])
    local account = ended[base]
    if not account then
      account = {schedules = {}, sums = {}}
      ended[base] = account
    end
    account.schedules[#account.schedules + 1] = schedule
    local mark = status == 'completed' and 'c' or 'f'
    count(account.sums, math.floor(at / 1000), mark, ARGV[i + 6], ARGV[i + 7])
  end
  codes[#codes + 1] = code
end

local function add(rollup, bucket, sum, with_lateness)
  for _, field in ipairs({'c', 'f', 't'}) do
    if sum[field] > 0 then
      redis.call('HINCRBY', rollup, bucket .. field, sum[field])
    end
  end
  if with_lateness then
    for lateness, fires in pairs(sum.late) do
      redis.call('HINCRBY', rollup, bucket .. 'b' .. lateness, fires)
    end
  end
end

for base, account in pairs(ended) do
  local those = account.schedules
  for i = 1, #those, 1000 do
    local last = math.min(i + 999, #those)
    redis.call('ZREM', base .. 'waiting', unpack(those, i, last))
    redis.call('ZREM', base .. 'held', unpack(those, i, last))
  end
  -- Seconds within a minute, minutes within an hour, hours within a day.
  for second, sum in pairs(account.sums) do
    local minute, hour = math.floor(second / 60), math.floor(second / 3600)
    local by_minute, by_hour = base .. 'minute:' .. minute, base .. 'hour:' .. hour
    local by_day = base .. 'day:' .. math.floor(hour / 24)
    add(by_minute, second % 60, sum, false)
    add(by_hour, minute % 60, sum, true)
    add(by_day, hour % 24, sum, true)
    redis.call('PEXPIRE', by_minute, ARGV[4])
    redis.call('PEXPIRE', by_hour, ARGV[2])
    redis.call('PEXPIRE', by_day, ARGV[2])
  end
end
return {now_us, codes}
