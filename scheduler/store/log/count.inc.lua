-- Counts executions in the rollups: seconds within a minute, minutes within an hour, hours within a
-- day.

--@include number
-- A rollup's bucket with its gains, for `write`.
local function counted(rollup, bucket, sums)
  local gains = {}
  for i = 1, #sums, 2 do
    if tonumber(sums[i + 1]) > 0 then
      gains[#gains + 1], gains[#gains + 2] = bucket .. sums[i], sums[i + 1]
    end
  end
  return added(rollup, gains)
end

-- Reads the three rollups, before the first write. base: the account's prefix; at: their moment
-- (ms); sums, and spread over the buckets of the histograms: flat, names and what they gain.
local function read_rollups(base, at, sums, spread)
  local second = math.floor(at / 1000)
  local minute, hour = math.floor(second / 60), math.floor(second / 3600)
  local seconds = counted(base .. K.MINUTE .. minute, second % 60, sums)
  for i = 1, #spread do
    sums[#sums + 1] = spread[i]
  end
  return {seconds, counted(base .. K.HOUR .. hour, minute % 60, sums),
    counted(base .. K.DAY .. math.floor(hour / 24), hour % 24, sums)}
end

-- ttl_ms, seconds_ms: how long rollups and single seconds are kept.
local function count(rollups, ttl_ms, seconds_ms)
  write(rollups[1], seconds_ms)
  write(rollups[2], ttl_ms)
  write(rollups[3], ttl_ms)
end
