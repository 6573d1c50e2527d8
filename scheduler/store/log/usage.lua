#!lua flags=no-writes
-- Sums executions over ranges of rollups, all at one moment.
-- KEYS[1]  the account's prefix
-- ARGV     for each range: the rollup's name ('hour:495412'), first and last of its buckets
-- Returns  {completed, failed, total response time (ms)}
local completed, failed, total_ms = 0, 0, 0
for i = 1, #ARGV, 3 do
  local fields = {}
  for bucket = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]) do
    local n = #fields
    fields[n + 1], fields[n + 2], fields[n + 3] = bucket .. R.COMPLETED,
      bucket .. R.FAILED, bucket .. R.RESPONSE_TIME
  end
  local sums = redis.call('HMGET', KEYS[1] .. ARGV[i], unpack(fields))
  for j = 1, #sums, 3 do
    completed = completed + (tonumber(sums[j] or '0') or 0)
    failed = failed + (tonumber(sums[j + 1] or '0') or 0)
    total_ms = total_ms + (tonumber(sums[j + 2] or '0') or 0)
  end
end
return {completed, failed, total_ms}
