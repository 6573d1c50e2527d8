#!lua flags=allow-oom
-- Records outcomes: the schedules' end, a chunk of the log, the indexes and the statistics, in one
-- step. They come by account, and an account's are recorded together or not at all: where one is
-- not held by its token any more, nothing of that account is written, and the caller repeats it
-- without that one. Safe to repeat: the first time takes the leases away. A lease that has ended
-- and that nobody took over is still acked.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  how long an ended schedule is kept (ms)
-- ARGV[2]  how long log and statistics are kept (ms)
-- ARGV[3]  most log entries of an account
-- ARGV[4]  how long single seconds are kept (ms)
-- ARGV[5]  how long a failed schedule is kept (ms)
-- ARGV[6]  how long of that as a dead letter (ms)
-- ARGV[7]  most dead letters of an account
-- ARGV[8…] for each account: its name, how many schedules, chunk of log entries, completed, failed,
--          total response time (ms), bytes of the packed requests of those completed, of those
--          failed (nobody changes what is held), two lists with how many strings each has before it
--          (buckets of the histograms, by letter and number, and how many fires in each; what the
--          index notes and the digests of it), if any failed a third (what targets said to those: its
--          place among the schedules, what is kept of it, '' to forget what an attempt before left),
--          and for each schedule: schedule, token, packed outcome
-- Returns  {now (us), a code for each schedule}: 1 recorded, 0 had ended before, -1 another holds
--          it, 2 not recorded because of the others: to be sent again without those
--@include now
--@include moment
--@include claims/token
--@include claims/group
--@include log/append
--@include log/count
--@include schedules/failed
--@include schedules/weight
local prefix = KEYS[1]
local ttl_ms, most, seconds_ms = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local codes = {}

-- Of those that have had several; retried ones are among them. What completed leaves nothing that was
-- said before.
local function forget_attempts(base, schedules, first)
  local used = redis.call('HMGET', base .. K.TRIED, unpack(schedules))
  for i, schedule in ipairs(schedules) do
    if used[i] then
      local key, failed = base .. K.SCHEDULE .. schedule, has_failed(ARGV[first + 3 * i - 1])
      redis.call('HDEL', key, 'n', failed and 'n' or 's')
    end
  end
  redis.call('HDEL', base .. K.TRIED, unpack(schedules))
end

local function record(base, schedules, first, at)
  local key, ended_at, letters = base .. K.SCHEDULE, moment(at), {}
  for i, schedule in ipairs(schedules) do
    local outcome, kept_ms = ARGV[first + 3 * i - 1], ARGV[1]
    if has_failed(outcome) then
      letters[#letters + 1], letters[#letters + 2] = at, schedule
      kept_ms = ARGV[5]
    end
    redis.call('HSET', key .. schedule, 'o', ended_at .. outcome)
    redis.call('PEXPIRE', key .. schedule, kept_ms)
  end
  if #letters > 0 then
    note_failed(base, letters, tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[1]))
  end
  redis.call('ZREM', base .. K.WAITING, unpack(schedules))
  redis.call('ZREM', base .. K.HELD, unpack(schedules))
  if redis.call('EXISTS', base .. K.TRIED) == 1 then
    forget_attempts(base, schedules, first)
  end
end

-- When what has ended is forgotten: failed ones later than completed ones.
local function expire(base, completed, completed_bytes, failed, failed_bytes)
  if completed > 0 then
    note_expiring(base, weight_of(completed_bytes, completed), now_ms + ARGV[1])
  end
  if failed > 0 then
    note_expiring(base, weight_of(failed_bytes, failed), now_ms + ARGV[5])
  end
end

-- Keeps what targets said; returns what that weighs.
local function note_said(base, schedules, said)
  local key, weight = base .. K.SCHEDULE, 0
  for i = 1, #said, 2 do
    local schedule = schedules[tonumber(said[i])]
    if said[i + 1] == '' then
      redis.call('HDEL', key .. schedule, 's')
    else
      redis.call('HSET', key .. schedule, 's', said[i + 1])
      weight = weight + answer_weight(#said[i + 1])
    end
  end
  if weight > 0 then
    redis.call('HINCRBY', base .. K.ACCOUNT, 'bytes', weight)
  end
  return weight
end

local i = 8
while i <= #ARGV do
  local base, size, chunk = prefix .. ARGV[i] .. ':', tonumber(ARGV[i + 1]), ARGV[i + 2]
  local sums = {R.COMPLETED, ARGV[i + 3], R.FAILED, ARGV[i + 4], R.RESPONSE_TIME, ARGV[i + 5]}
  local completed, failed, bytes = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), i + 6
  local spread, places, said
  spread, i = list(i + 8)
  places, i = list(i)
  if failed > 0 then
    said, i = list(i)
  end
  local schedules, found, all = judge(base, i, 3, size)
  if all then
    local at = append(base, chunk, size, places, ttl_ms, most)
    local weight = said and note_said(base, schedules, said) or 0
    expire(base, completed, ARGV[bytes], failed, ARGV[bytes + 1] + weight)
    record(base, schedules, i, at)
    count(base, at, sums, spread, ttl_ms, seconds_ms)
  end
  tell(codes, found, all)
  i = i + 3 * size
end
return {now_us, codes}
