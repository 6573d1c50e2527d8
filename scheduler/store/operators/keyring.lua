#!lua flags=allow-oom
-- Notes which keys a process has, and the one that it seals with; or that it has gone.
-- KEYS[1]  the store's metadata
-- ARGV     process, its keys' ids with commas between, the first of them ('': none), what that one
--          has sealed for a trial, whether the process goes now, after how long without a word it is
--          not told of any more (ms)
-- Returns  {now (us), all fields}
--@include now
local meta, ring = KEYS[1], 'ring:' .. ARGV[1]
if ARGV[5] == '1' then
  redis.call('HDEL', meta, ring)
else
  redis.call('HSET', meta, ring, string.format('%.0f ', now_ms) .. ARGV[2])
end
if ARGV[3] ~= '' then
  redis.call('HSETNX', meta, 'key:' .. ARGV[3], ARGV[4])
  redis.call('HSET', meta, 'sealed:' .. ARGV[3], string.format('%.0f', now_us))
end
local fields = redis.call('HGETALL', meta)
for i = 1, #fields, 2 do
  local heard_ms = string.sub(fields[i], 1, 5) == 'ring:' and string.match(fields[i + 1], '^%d+')
  if heard_ms and tonumber(heard_ms) < now_ms - ARGV[6] then
    redis.call('HDEL', meta, fields[i])
  end
end
return {now_us, fields}
