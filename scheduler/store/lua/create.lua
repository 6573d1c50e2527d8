#!lua
-- Stores schedules and takes a credit for each, in one step. Safe to repeat: a schedule that is
-- there already is not paid for again.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  how long a day's rollup is kept, ms
-- ARGV[2…] for each schedule: account, schedule, triggerAt (ms), packed request
-- Returns  {now (us), a code for each}: 1 stored (now or before), 0 too few credits, -1 no account
--@include now
--@include ledger
local prefix, ttl_ms = KEYS[1], ARGV[1]
local left, taken, codes = {}, {}, {}

for i = 2, #ARGV, 4 do
  local account = ARGV[i]
  local base = prefix .. account .. ':'
  if left[account] == nil then
    left[account] = tonumber(redis.call('HGET', base .. 'account', 'credits') or '-1')
    taken[account] = {}
  end
  local code = 1
  if left[account] == -1 then
    code = -1
  elseif redis.call('EXISTS', base .. 's:' .. ARGV[i + 1]) == 0 then
    if left[account] < 1 then
      code = 0
    else
      left[account] = left[account] - 1
      table.insert(taken[account], i)
    end
  end
  codes[#codes + 1] = code
end

for account, places in pairs(taken) do
  if #places > 0 then
    local base = prefix .. account .. ':'
    local earliest = math.huge
    for _, i in ipairs(places) do
      redis.call('HSET', base .. 's:' .. ARGV[i + 1], 'r', ARGV[i + 3], 'c', now_ms)
      redis.call('ZADD', base .. 'waiting', ARGV[i + 2], ARGV[i + 1])
      earliest = math.min(earliest, tonumber(ARGV[i + 2]))
    end
    -- Not before now: what comes in late does not push ahead of accounts that wait their turn.
    redis.call('ZADD', prefix .. 'heads', 'LT', math.max(earliest, now_ms), account)
    redis.call('HINCRBY', base .. 'account', 'credits', -#places)
    redis.call('HINCRBY', base .. 'account', 'spent', #places)
    move_credits(base, 'spent', #places, ttl_ms)
  end
end
return {now_us, codes}
