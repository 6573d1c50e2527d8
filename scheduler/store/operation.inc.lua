-- Operations that were done are remembered by name for a while, for a repeat of them.
-- base: the account's prefix.
local function was_done(base, operation)
  return redis.call('EXISTS', base .. K.OPERATION .. operation) == 1
end

local function note_done(base, operation, ttl_ms)
  redis.call('SET', base .. K.OPERATION .. operation, '', 'PX', ttl_ms)
end
