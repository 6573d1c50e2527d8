#!lua flags=no-writes
-- Accounts of a shard, each with its state, its ledger, what waits, is overdue and stored, and what
-- it did in this hour and the one before. Of a damaged one only its name is told.
-- KEYS[1]  the shard's prefix
-- ARGV     the first one's rank by age, and how many; or '' and '', then the accounts
-- Returns  {now (us), how many accounts the shard has, {account, name, plan, '1' of an
--          operator, 'suspended', 'paused' or '', credits, granted, spent, waiting, overdue, since
--          when the oldest of these is due (ms; '' without any), bytes, executed, failed among these,
--          created}, …}
--@include shared/now
--@include lifecycle/row/weight
local prefix, late_ms = KEYS[1], now_ms - 1000
local names = {unpack(ARGV, 3)}
if ARGV[1] ~= '' then
  names = redis.call('ZRANGE', prefix .. K.ACCOUNTS, ARGV[1], ARGV[1] + ARGV[2] - 1)
end
local this_hour = math.floor(now_ms / 3600000)

-- Executed, failed among these, created.
local function done_of(base)
  local completed, failed, created = 0, 0, 0
  for hour = this_hour - 1, this_hour do
    local at = whole(hour % 24)
    local found = redis.call('HMGET', base .. K.DAY .. whole(math.floor(hour / 24)), at, at .. 's')
    local sums = found[1] and cmsgpack.unpack(found[1]) or {}
    completed, failed = completed + number(sums.c), failed + number(sums.f)
    created = created + number(found[2])
  end
  return completed + failed, failed, created
end

-- How many are overdue, and since when the oldest: not those that a pause, a suspension or a limit
-- of a lane holds back. Of a lane its next one counts, from when it may start on.
local function overdue_of(base, account, state)
  if state ~= '' then
    return 0, ''
  end
  local waiting, heads = base .. K.WAITING, base .. K.LANE_HEADS
  local count = redis.call('ZCOUNT', waiting, '-inf', '(' .. late_ms)
  local lanes = redis.call('ZCOUNT', heads, '(-inf', '(' .. late_ms)
  -- Lateness counts from the end of a pause on.
  local resumed = tonumber(redis.call('ZSCORE', prefix .. K.RESUMED, account) or 0)
  local since = math.huge
  if count > 0 and resumed < late_ms then
    local first = redis.call('ZRANGE', waiting, 0, 0, 'WITHSCORES')
    since = tonumber(redis.call('ZSCORE', base .. K.HELD, first[1]) or first[2])
    since = math.max(since, resumed)
  else
    count = 0
  end
  if lanes > 0 then
    local first = redis.call('ZRANGE', heads, '(-inf', '+inf', 'BYSCORE', 'LIMIT', 0, 1,
      'WITHSCORES')
    since = math.min(since, tonumber(first[2]))
  end
  return count + lanes, count + lanes > 0 and tostring(since) or ''
end

local function row_of(account)
  local base = prefix .. account .. ':'
  local set = redis.call('HMGET', base .. K.ACCOUNT, 'name', 'plan', 'operator',
    'suspended', 'paused', 'paused_until', 'credits', 'granted', 'spent', 'bytes', 'settled')
  local is_paused = set[5] and tonumber(set[6] or 'inf') > now_ms
  local state = set[4] and 'suspended' or is_paused and 'paused' or ''
  local waiting = redis.call('ZCARD', base .. K.WAITING) + redis.call('ZCARD', base .. K.LANED)
    - redis.call('ZCARD', base .. K.HELD)
  local overdue, since = overdue_of(base, account, state)
  local bytes = stored_bytes(base, set[10], set[11])
  return {account, set[1], set[2], set[3] or '', state, number(set[7]),
    number(set[8]), number(set[9]), math.max(0, waiting), overdue, since, whole(bytes),
    done_of(base)}
end

local rows = {now_us, redis.call('ZCARD', prefix .. K.ACCOUNTS)}
for _, account in ipairs(names) do
  local sound, row = pcall(row_of, account)
  rows[#rows + 1] = sound and row[2] and row or {account}
end
return rows
