#!lua flags=allow-oom
-- After the server's clock was set back: claims look at lanes of an account when these can start
-- something by the clock of now. A damaged lane keeps its turn, and one that has lost it gets one.
-- Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, the lane behind which to begin ('': at the first), how many
-- Returns  {now (us), the last lane that was looked at ('': there are no more)}
--@include shared/now
--@include lifecycle/row/place
--@include lifecycle/row/control
local key = KEYS[1] .. ARGV[1] .. ':' .. K.LANES
local names = redis.pcall('ZRANGE', key, '(' .. ARGV[2], '+', 'BYLEX', 'LIMIT', 0, ARGV[3])
-- A damaged list is an error, which has no members.
for _, name in ipairs(names) do
  local queue = queue_of(KEYS[1], ARGV[1] .. '/' .. name)
  if pcall(check_queue, queue) then
    pcall(relook, queue)
  end
end
return {now_us, #names == tonumber(ARGV[3]) and names[#names] or ''}
