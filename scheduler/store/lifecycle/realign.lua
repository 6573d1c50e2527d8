#!lua flags=allow-oom
-- After the server's clock was set back: brings forward the turns of accounts that are to be looked
-- at later than their first schedule is due. A damaged account keeps its turn. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     rank of the first account to look at, how many
-- Returns  {now (us), how many were looked at}
--@include now
--@include lifecycle/place
local heads = KEYS[1] .. K.HEADS
local first, count = tonumber(ARGV[1]), tonumber(ARGV[2])
local accounts = redis.call('ZRANGE', heads, first, first + count - 1, 'WITHSCORES')
for i = 1, #accounts, 2 do
  local waiting = KEYS[1] .. accounts[i] .. ':' .. K.WAITING
  local due = redis.pcall('ZRANGE', waiting, 0, 0, 'WITHSCORES')[2]
  if due and tonumber(accounts[i + 1]) > math.max(tonumber(due), now_ms) then
    look_at(KEYS[1], accounts[i], tonumber(due))
  end
end
return {now_us, #accounts / 2}
