#!lua flags=allow-oom
-- Notes that a worker is alive, forgets those that were not heard of, and tells who is left.
-- KEYS[1]  the workers' hash
-- ARGV     worker id, what it says of itself (JSON), silence after which one is forgotten (ms);
--          an empty second argument says good-bye
-- Returns  {now (us), worker, "<heard at (ms)> <JSON>", …}
--@include now
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], now_ms .. ' ' .. ARGV[2])
end
local alive = {now_us}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if now_ms - tonumber(string.match(all[i + 1], '^%d+')) > tonumber(ARGV[3]) then
    redis.call('HDEL', KEYS[1], all[i])
  else
    alive[#alive + 1] = all[i]
    alive[#alive + 1] = all[i + 1]
  end
end
return alive
