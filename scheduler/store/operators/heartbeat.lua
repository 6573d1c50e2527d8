#!lua flags=allow-oom
-- Notes that a process is alive, and lists those that are. Lost ones stay in the hash for a while,
-- unless too many do. Heartbeats from the future are from before the clock was set back, and
-- dropped.
-- KEYS[1]  the hash of its role
-- ARGV     process id, what it says of itself (JSON; '': good-bye), silence after which one is lost
--          (ms), and forgotten (ms), most lost ones
-- Returns  {now (us), how many came from the future, process, "<heard at (ms)> <JSON>", …}
--@include now
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], now_ms .. ' ' .. ARGV[2])
end
local alive, lost = {now_us, 0}, {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local silent_ms = now_ms - tonumber(string.match(all[i + 1], '^%d+') or 0)
  if silent_ms < -1000 then
    redis.call('HDEL', KEYS[1], all[i])
    alive[2] = alive[2] + 1
  elseif silent_ms <= tonumber(ARGV[3]) then
    alive[#alive + 1] = all[i]
    alive[#alive + 1] = all[i + 1]
  else
    lost[#lost + 1] = {silent_ms, all[i]}
  end
end
table.sort(lost, function(a, b) return a[1] < b[1] end)
for i, each in ipairs(lost) do
  if each[1] > tonumber(ARGV[4]) or i > tonumber(ARGV[5]) then
    redis.call('HDEL', KEYS[1], each[2])
  end
end
return alive
