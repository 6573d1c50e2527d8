-- Notes a movement of credits in the rollup of its day. Needs `now`.
-- base: the account's prefix; movement: 'granted', 'spent' or 'refunded'; ttl_ms: how long kept.
local function move_credits(base, movement, credits, ttl_ms)
  local day = base .. K.DAY .. math.floor(now_ms / 86400000)
  redis.call('HINCRBY', day, movement, credits)
  redis.call('PEXPIRE', day, ttl_ms)
end
