#!lua flags=allow-oom
-- Takes the one place that there is for a bench, keeps it, or gives it up. Safe to repeat.
-- KEYS[1]  the place
-- ARGV     who asks, for how long from now on (ms; 0: gives it up)
-- Returns  1: it is, or was, his; 0: another has it
local has = redis.call('GET', KEYS[1])
if has and has ~= ARGV[1] then
  return 0
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return 1
