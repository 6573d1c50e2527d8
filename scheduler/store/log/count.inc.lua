-- Counts executions in the rollups: by second of a minute, minute of an hour, hour of a day. Each of
-- these is a field, by its number: a msgpack map of sums by name. With a field for each sum an ack
-- had to search hundreds of them, twice.

--@include shared/number
-- A rollup's field after gains by name, for `write`. Raises if it is damaged.
local function counted(rollup, bucket, gains)
  local stored = redis.call('HGET', rollup, bucket)
  local sums = stored and cmsgpack.unpack(stored) or {}
  for name, gain in pairs(gains) do
    sums[name] = plus(sums[name], gain)
  end
  return {rollup, {bucket, cmsgpack.pack(sums)}, not stored}
end

local function note_gains(gains, flat)
  for i = 1, #flat, 2 do
    local gain = tonumber(flat[i + 1])
    if gain > 0 then
      gains[flat[i]] = gain
    end
  end
end

-- Reads the three rollups, before the first write. base: the account's prefix; at: their moment
-- (ms); sums, and spread over the buckets of the histograms: flat, names and what they gain.
local function read_rollups(base, at, sums, spread)
  local second = math.floor(at / 1000)
  local minute, hour = math.floor(second / 60), math.floor(second / 3600)
  local gains = {}
  note_gains(gains, sums)
  local seconds = counted(base .. K.MINUTE .. minute, second % 60, gains)
  note_gains(gains, spread)
  return {seconds, counted(base .. K.HOUR .. hour, minute % 60, gains),
    counted(base .. K.DAY .. math.floor(hour / 24), hour % 24, gains)}
end

-- ttl_ms, seconds_ms: how long rollups and single seconds are kept.
local function count(rollups, ttl_ms, seconds_ms)
  write(rollups[1], seconds_ms)
  write(rollups[2], ttl_ms)
  write(rollups[3], ttl_ms)
end
