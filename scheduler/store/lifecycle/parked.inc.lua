-- Parked accounts: a key is damaged to which the end of a schedule or an attempt is written. A worker
-- would fire their schedules, fail to record it, and fire them again after each lease; so claims pass
-- these accounts over until the store can record again. Needs `now`.

local function park(prefix, account)
  -- If `parked` itself is damaged, the schedules wait for the end of their leases only.
  redis.pcall('ZADD', prefix .. K.PARKED, now_ms, account)
end
