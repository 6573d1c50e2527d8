-- Counts executions in the rollups: seconds within a minute, minutes within an hour, hours within a
-- day.

-- Adds to a rollup's bucket; what is kept so long from its first use is not touched again.
local function add(rollup, bucket, sums, kept_ms)
  local new = false
  for i = 1, #sums, 2 do
    if tonumber(sums[i + 1]) > 0 then
      local sum = redis.call('HINCRBY', rollup, bucket .. sums[i], sums[i + 1])
      new = new or sum == tonumber(sums[i + 1])
    end
  end
  if new then
    redis.call('PEXPIRE', rollup, kept_ms)
  end
end

-- base: the account's prefix; at: their moment (ms); sums, and spread over the buckets of the
-- histograms: flat, names and what they gain; ttl_ms, seconds_ms: how long rollups and single seconds
-- are kept.
local function count(base, at, sums, spread, ttl_ms, seconds_ms)
  local second = math.floor(at / 1000)
  local minute, hour = math.floor(second / 60), math.floor(second / 3600)
  add(base .. K.MINUTE .. minute, second % 60, sums, seconds_ms)
  for i = 1, #spread do
    sums[#sums + 1] = spread[i]
  end
  add(base .. K.HOUR .. hour, minute % 60, sums, ttl_ms)
  add(base .. K.DAY .. math.floor(hour / 24), hour % 24, sums, ttl_ms)
end
