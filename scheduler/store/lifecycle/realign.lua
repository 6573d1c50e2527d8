#!lua flags=allow-oom
-- After the server's clock was set back: brings forward the turns of accounts that are to be looked
-- at later than their first schedule is due, ends of pauses that have passed, and turns of as many
-- accounts' callbacks. A damaged account keeps its turn. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     rank of the first account to look at, how many
-- Returns  {now (us), how many were looked at, those of these that have lanes}
--@include now
--@include lifecycle/place
--@include lifecycle/callbacks
local heads, resumed = KEYS[1] .. K.HEADS, KEYS[1] .. K.RESUMED
local first, count = tonumber(ARGV[1]), tonumber(ARGV[2])
local accounts = redis.call('ZRANGE', heads, first, first + count - 1, 'WITHSCORES')
local with_lanes = {}
for i = 1, #accounts, 2 do
  local name, account = accounts[i], string.match(accounts[i], '[^/]+')
  local waiting = KEYS[1] .. account .. ':' .. K.WAITING
  local due = redis.pcall('ZRANGE', waiting, 0, 0, 'WITHSCORES')[2]
  if name ~= account then
    with_lanes[#with_lanes + 1] = account
  elseif due and tonumber(accounts[i + 1]) > math.max(tonumber(due), now_ms) then
    look_at(KEYS[1], account, tonumber(due))
  end
  -- Nothing starts before the end of a pause, from which lateness counts.
  local resumed_ms = redis.pcall('ZSCORE', resumed, account)
  if type(resumed_ms) == 'string' and tonumber(resumed_ms) > now_ms then
    redis.call('ZADD', resumed, now_ms, account)
  end
end
local late = redis.pcall('ZRANGE', KEYS[1] .. K.CALLBACK_HEADS, '(' .. now_ms, '+inf', 'BYSCORE',
  'LIMIT', 0, count)
for _, account in ipairs(late) do
  pcall(relook_at_callbacks, callbacks_of(KEYS[1], account))
end
return {now_us, #accounts / 2, with_lanes}
