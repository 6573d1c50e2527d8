#!lua flags=no-writes
-- Executions over a period, point by point, and how late they were, all at one moment.
-- KEYS[1]  the account's prefix
-- ARGV[1]  how many buckets make a point
-- ARGV[2]  how many buckets each histogram has room for
-- ARGV[3…] for each range: the rollup's name ('hour:495412'), first and last of its buckets;
--          ranges follow on one another
-- Returns  {of each point flat: completed, failed, total response time (ms); the histograms of
--          lateness and of response times, each flat: place, executions, and of a point's bucket
--          the place is point * room + bucket, both from 0 on}
local width, room = tonumber(ARGV[1]), tonumber(ARGV[2])
local points, before = {}, 0
local places = {[R.COMPLETED] = 1, [R.FAILED] = 2, [R.RESPONSE_TIME] = 3}
local spreads = {[R.LATENESS] = {}, [R.RESPONSE] = {}}

local function flat(spread)
  local values = {}
  for place, executions in pairs(spread) do
    values[#values + 1], values[#values + 2] = place, executions
  end
  return values
end

for i = 3, #ARGV, 3 do
  local first, last = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  for j = #points + 1, 3 * math.ceil((before + last - first + 1) / width) do
    points[j] = 0
  end
  local sums = redis.call('HGETALL', KEYS[1] .. ARGV[i])
  for j = 1, #sums, 2 do
    local bucket, what, nth = string.match(sums[j], '^(%d+)(%a)(%d*)$')
    bucket = tonumber(bucket)
    if bucket and bucket >= first and bucket <= last then
      local value = tonumber(sums[j + 1]) or 0
      local point = math.floor((before + bucket - first) / width)
      local spread = spreads[what]
      if spread then
        local place = point * room + tonumber(nth)
        spread[place] = (spread[place] or 0) + value
      elseif places[what] then
        local at = point * 3 + places[what]
        points[at] = points[at] + value
      end
    end
  end
  before = before + last - first + 1
end
return {points, flat(spreads[R.LATENESS]), flat(spreads[R.RESPONSE])}
