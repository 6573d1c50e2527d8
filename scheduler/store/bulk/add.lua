#!lua
-- Stores a bulk action, which is due at once, or after the step of the account that is under way. An
-- account that has too many loses the oldest one that has nothing left to do.
-- Safe to repeat: one that is stored stays as it is.
-- KEYS[1]  the shard's prefix
-- ARGV     account, action, what was asked, its progress, its state, how many an account may have,
--          how long it is kept (ms)
-- Returns  DONE; UNKNOWN: no such account; TOO_MANY: as many are under way
--@include shared/now
--@include bulk/turn
local prefix, account, action = KEYS[1], ARGV[1], ARGV[2]
local base, most = prefix .. account .. ':', tonumber(ARGV[6])
local list, key = base .. K.BULKS, base .. K.BULK .. action
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return V.UNKNOWN
elseif redis.call('HEXISTS', key, 'r') == 1 then
  return V.DONE
end
local gone, kept, finished = {}, 0, {}
for _, each in ipairs(redis.call('ZRANGE', list, 0, -1)) do
  local stored = redis.call('HMGET', base .. K.BULK .. each, 'r', 'n')
  kept = kept + 1
  if not stored[1] then
    gone[#gone + 1], kept = each, kept - 1
  elseif not stored[2] then
    finished[#finished + 1] = each
  end
end
while kept >= most do
  if #finished == 0 then
    return V.TOO_MANY
  end
  gone[#gone + 1], kept = table.remove(finished, 1), kept - 1
end
redis.call('ZSCORE', prefix .. K.BULK_DUE, account)

for _, each in ipairs(gone) do
  redis.call('ZREM', list, each)
  redis.call('DEL', base .. K.BULK .. each, base .. K.BULK_MADE .. each)
end
redis.call('HSET', key, 'r', ARGV[3], 'p', ARGV[4], 's', ARGV[5], 'v', 0, 'n', now_ms)
redis.call('PEXPIRE', key, ARGV[7])
redis.call('ZADD', list, now_ms, action)
hasten_account(prefix, account, now_ms)
return V.DONE
