-- Counts executions in the rollups: by second of a minute, minute of an hour, hour of a day.

--@include shared/number
-- What `names` say of one bucket of a rollup, with their gains, for `write`.
local function counted(rollup, bucket, names, gains)
  local fields = {}
  for i, name in ipairs(names) do
    fields[i] = bucket .. name
  end
  return added(rollup, fields, gains)
end

local function append_gains(names, gains, sums)
  local n = #names
  for i = 1, #sums, 2 do
    local gain = tonumber(sums[i + 1])
    if gain > 0 then
      n = n + 1
      names[n], gains[n] = sums[i], gain
    end
  end
end

-- Reads the three rollups, before the first write. base: the account's prefix; at: their moment
-- (ms); sums, and spread over the buckets of the histograms: flat, names and what they gain.
local function read_rollups(base, at, sums, spread)
  local second = math.floor(at / 1000)
  local minute, hour = math.floor(second / 60), math.floor(second / 3600)
  local names, gains = {}, {}
  append_gains(names, gains, sums)
  local seconds = counted(base .. K.MINUTE .. minute, second % 60, names, gains)
  append_gains(names, gains, spread)
  return {seconds, counted(base .. K.HOUR .. hour, minute % 60, names, gains),
    counted(base .. K.DAY .. math.floor(hour / 24), hour % 24, names, gains)}
end

-- ttl_ms, seconds_ms: how long rollups and single seconds are kept.
local function count(rollups, ttl_ms, seconds_ms)
  write(rollups[1], seconds_ms)
  write(rollups[2], ttl_ms)
  write(rollups[3], ttl_ms)
end
