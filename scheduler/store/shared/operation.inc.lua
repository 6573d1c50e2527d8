-- Operations that were done are remembered by name, for a repeat of them after a lost reply: for a
-- minute, as an account may leave one with each request, or for `kept_ms`; with what came of it, if
-- a repeat has to know that.
-- base: the account's prefix.
local function was_done(base, operation)
  return redis.call('EXISTS', base .. K.OPERATION .. operation) == 1
end

local function note_done(base, operation, kept_ms, came)
  redis.call('SET', base .. K.OPERATION .. operation, came or '', 'PX', kept_ms or 60000)
end
