#!lua
-- Makes an account. Safe to repeat with the same operation.
-- KEYS[1]  the shard's prefix
-- ARGV     account, operation, name, plan, credits, the e-mail of its owner ('': none), the owner's
--          id, operator ('1' or '0'), how long a day's rollup is kept (ms), the id of its signing
--          secret, that secret
-- Returns  1 made (now or before), 0 another account has this id, -1 one that is being deleted has
--@include shared/now
--@include shared/ledger
--@include accounts/signing/signing
local base = KEYS[1] .. ARGV[1] .. ':'
local key = base .. K.ACCOUNT
if redis.call('EXISTS', key) == 1 then
  return redis.call('HGET', key, 'op') == ARGV[2] and 1 or 0
end
if redis.call('EXISTS', base .. K.LEAVING) == 1 then
  return -1
end
redis.call('ZCARD', KEYS[1] .. K.ACCOUNTS)
redis.call('LLEN', base .. K.SIGNING)
redis.call('ZCARD', base .. K.MEMBERS)
redis.call('HLEN', base .. K.MEMBER .. ARGV[7])
local movement = tonumber(ARGV[5]) > 0 and moved_credits(base, 'granted', ARGV[5])

redis.call('HSET', key, 'op', ARGV[2], 'name', ARGV[3], 'plan', ARGV[4], 'credits', ARGV[5],
  'granted', ARGV[5], 'spent', 0, 'operator', ARGV[8], 'created', now_ms)
if ARGV[6] ~= '' then
  redis.call('HSET', base .. K.MEMBER .. ARGV[7], 'email', ARGV[6], 'role', 'own')
  redis.call('ZADD', base .. K.MEMBERS, now_ms, ARGV[7])
end
redis.call('ZADD', KEYS[1] .. K.ACCOUNTS, now_ms, ARGV[1])
redis.call('RPUSH', base .. K.SIGNING, secret_entry(ARGV[10], now_ms, 0, ARGV[11]))
if movement then
  write(movement, ARGV[9])
end
return 1
