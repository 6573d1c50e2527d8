#!lua flags=allow-oom
-- Writes the number of shards, the format and an id at the first start, and raises the number after;
-- never lowers it. Changes nothing in a store of another format.
-- KEYS[1]  the store's metadata
-- ARGV     number for a new store, number asked for (0: none), format, id for a new store ('': leave an
--          empty store empty)
-- Returns  {the number in force (0: the store is empty), the format that the store has, its id}
local before = tonumber(redis.call('HGET', KEYS[1], 'shards') or '0')
local format = tonumber(redis.call('HGET', KEYS[1], 'format') or (before > 0 and '1' or ARGV[3]))
if format ~= tonumber(ARGV[3]) then
  return {before, format, redis.call('HGET', KEYS[1], 'id') or ''}
end
local count = before
if count == 0 and ARGV[4] == '' then
  return {0, format, ''}
end
if count == 0 then
  count = tonumber(ARGV[2]) > 0 and tonumber(ARGV[2]) or tonumber(ARGV[1])
end
count = math.max(count, tonumber(ARGV[2]))
if count ~= before then
  redis.call('HSET', KEYS[1], 'shards', count, 'format', format)
end
if before == 0 then
  redis.call('HSET', KEYS[1], 'id', ARGV[4])
end
return {count, format, redis.call('HGET', KEYS[1], 'id') or ''}
