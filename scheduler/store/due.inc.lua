-- When the claims look at an account. Needs `now`; prefix: the shard's.

-- Raises if `heads` is damaged; for use before the first write.
local function check_heads(prefix)
  redis.call('ZCARD', prefix .. K.HEADS)
end

-- No later than `at` (ms). Not before now: what comes in late does not push ahead of accounts that
-- wait their turn.
local function look_at(prefix, account, at)
  redis.call('ZADD', prefix .. K.HEADS, 'LT', math.max(at, now_ms), account)
end
