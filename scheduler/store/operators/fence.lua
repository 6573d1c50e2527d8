#!lua flags=allow-oom
-- Fences a shard off from who seals with a key, or lets them in again. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     the key's id, 1 to fence off or 0 to let in
-- Returns  1
local fence = KEYS[1] .. K.FORGOTTEN .. ARGV[1]
if ARGV[2] == '1' then
  redis.call('SET', fence, '')
else
  redis.call('DEL', fence)
end
return 1
