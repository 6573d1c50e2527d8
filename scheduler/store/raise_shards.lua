#!lua flags=allow-oom
-- Writes the number of shards, the format and an id at the first start. Later it raises the number,
-- and never lowers it. Changes nothing in a store of another format.
-- KEYS[1]  the store's metadata
-- ARGV     number for a new store, number asked for (0: none), format, id for a new store ('': an
--          empty store stays empty)
-- Returns  {the number in force (0: the store is empty), the store's format (0: none), its id}
local stored = redis.call('HMGET', KEYS[1], 'shards', 'format', 'id')
local asked, ours = tonumber(ARGV[2]), tonumber(ARGV[3])
if not stored[1] and ARGV[4] == '' then
  return {0, ours, ''}
end
if not stored[1] then
  local count = asked > 0 and asked or tonumber(ARGV[1])
  redis.call('HSET', KEYS[1], 'shards', count, 'format', ours, 'id', ARGV[4])
  return {count, ours, ARGV[4]}
end
local format, id = tonumber(stored[2]) or 0, stored[3] or ''
local count = tonumber(stored[1])
if format == ours and asked > count then
  redis.call('HSET', KEYS[1], 'shards', asked)
  count = asked
end
return {count, format, id}
