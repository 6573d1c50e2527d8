#!lua flags=no-writes
-- Executions over a period, point by point, and how late they were, all at one moment.
-- KEYS[1]  the account's prefix
-- ARGV[1]  how many buckets make a point
-- ARGV[2]  how many buckets the lateness histogram has
-- ARGV[3…] for each range: the rollup's name ('hour:495412'), first and last of its buckets;
--          ranges follow on one another, and each holds whole points
-- Returns  {of each point flat: completed, failed, total response time (ms); executions in each
--          bucket of lateness, over the whole period}
local width, lateness = tonumber(ARGV[1]), {}
for i = 1, tonumber(ARGV[2]) do
  lateness[i] = 0
end
local points, before = {}, 0
local places = {[R.COMPLETED] = 1, [R.FAILED] = 2, [R.RESPONSE_TIME] = 3}

for i = 3, #ARGV, 3 do
  local first, last = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local count = (last - first + 1) / width
  for j = before * 3 + 1, (before + count) * 3 do
    points[j] = 0
  end
  local sums = redis.call('HGETALL', KEYS[1] .. ARGV[i])
  for j = 1, #sums, 2 do
    local bucket, what, nth = string.match(sums[j], '^(%d+)(%a)(%d*)$')
    bucket = tonumber(bucket)
    if bucket and bucket >= first and bucket <= last then
      local value = tonumber(sums[j + 1]) or 0
      if what == R.LATENESS then
        local n = tonumber(nth) + 1
        lateness[n] = (lateness[n] or 0) + value
      else
        local at = (before + math.floor((bucket - first) / width)) * 3 + places[what]
        points[at] = points[at] + value
      end
    end
  end
  before = before + count
end
return {points, lateness}
