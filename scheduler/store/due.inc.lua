-- Lets the claims look at an account no later than `at` (ms). Not before now: what comes in late
-- does not push ahead of accounts that wait their turn. Needs `now`; prefix: the shard's.
local function look_at(prefix, account, at)
  redis.call('ZADD', prefix .. K.HEADS, 'LT', math.max(at, now_ms), account)
end
