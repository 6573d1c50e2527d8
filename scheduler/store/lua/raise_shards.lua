#!lua flags=allow-oom
-- Writes the number of shards at the first start, and raises it after; never lowers it.
-- KEYS[1]  the store's metadata
-- ARGV     number for a new store, number asked for (0: none)
-- Returns  the number in force
local before = tonumber(redis.call('HGET', KEYS[1], 'shards') or '0')
local count = before
if count == 0 then
  count = tonumber(ARGV[2]) > 0 and tonumber(ARGV[2]) or tonumber(ARGV[1])
end
count = math.max(count, tonumber(ARGV[2]))
if count ~= before then
  redis.call('HSET', KEYS[1], 'shards', count)
end
return count
