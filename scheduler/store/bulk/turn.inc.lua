-- Which of an account's bulk actions has the next turn. base: the account's prefix.
--@include number
-- An action, and the moment (ms) of its turn; nil: none has anything left to do.
local function next_turn(base)
  local next_action, next_ms
  for _, action in ipairs(redis.call('ZRANGE', base .. K.BULKS, 0, -1)) do
    local stored = redis.call('HGET', base .. K.BULK .. action, 'n')
    local at_ms = stored and number(stored)
    if at_ms and (not next_ms or at_ms < next_ms) then
      next_action, next_ms = action, at_ms
    end
  end
  return next_action, next_ms
end

-- The next look at the account is then, but not before `earliest_ms`.
local function time_account(prefix, account, earliest_ms)
  local _, at_ms = next_turn(prefix .. account .. ':')
  if at_ms then
    redis.call('ZADD', prefix .. K.BULK_DUE, whole(math.max(at_ms, earliest_ms)), account)
  else
    redis.call('ZREM', prefix .. K.BULK_DUE, account)
  end
end
