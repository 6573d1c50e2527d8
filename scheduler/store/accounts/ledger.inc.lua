-- Notes a movement of credits in the rollup of its day. Needs `now`.
-- base: the account's prefix; movement: 'granted', 'spent' or 'refunded'; ttl_ms: how long kept.
-- What was spent is noted by its hour.
local function move_credits(base, movement, credits, ttl_ms)
  local day = base .. K.DAY .. math.floor(now_ms / 86400000)
  if movement == 'spent' then
    movement = math.floor(now_ms / 3600000) % 24 .. R.CREATED
  end
  redis.call('HINCRBY', day, movement, credits)
  redis.call('PEXPIRE', day, ttl_ms)
end
