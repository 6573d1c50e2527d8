-- Which of an account's bulk actions has the next turn. base: the account's prefix. An action's `n`
-- is the moment (ms) of its turn; with `l`, a process has it until then.
--@include shared/number
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

-- The next look at the account is at that turn, but not before `earliest_ms`.
local function time_account(prefix, account, earliest_ms)
  local _, at_ms = next_turn(prefix .. account .. ':')
  if at_ms then
    redis.call('ZADD', prefix .. K.BULK_DUE, whole(math.max(at_ms, earliest_ms)), account)
  else
    redis.call('ZREM', prefix .. K.BULK_DUE, account)
  end
end

-- One of the account's actions is due at once. While a process has another one, its step comes first.
local function hasten_account(prefix, account, now_ms)
  local base = prefix .. account .. ':'
  for _, action in ipairs(redis.call('ZRANGE', base .. K.BULKS, 0, -1)) do
    local turn, leased = unpack(redis.call('HMGET', base .. K.BULK .. action, 'n', 'l'))
    if leased and (tonumber(turn or '') or 0) > now_ms then
      return
    end
  end
  redis.call('ZADD', prefix .. K.BULK_DUE, whole(now_ms), account)
end
