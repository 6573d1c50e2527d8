-- Stops and starts what may start: accounts (a suspension or a pause), and lanes. Needs `place`.

-- Raises if a key is damaged that stopping or starting an account reads or writes.
local function check_account(prefix, account)
  check_heads(prefix)
  redis.call('ZCARD', prefix .. K.RESUMED)
  redis.call('HLEN', prefix .. account .. ':' .. K.ACCOUNT)
  redis.call('ZCARD', prefix .. account .. ':' .. K.WAITING)
  redis.call('ZCARD', prefix .. account .. ':' .. K.LANE_HEADS)
end

-- Claims pass over an account: its heads stand before every moment, and all else moves heads to
-- earlier moments only.
local function stop_account(prefix, account)
  look_again(prefix, account, '-inf')
  look_again(prefix, account .. '/', '-inf')
end

-- Claims look at an account again; to be called if it is neither suspended nor paused.
local function start_account(prefix, account)
  local base = prefix .. account .. ':'
  local first = redis.call('ZRANGE', base .. K.WAITING, 0, 0, 'WITHSCORES')[2]
  local lane = redis.call('ZRANGE', base .. K.LANE_HEADS, '(-inf', '+inf', 'BYSCORE', 'LIMIT', 0, 1,
    'WITHSCORES')[2]
  look_again(prefix, account, first and math.max(tonumber(first), now_ms))
  look_again(prefix, account .. '/', lane and math.max(tonumber(lane), now_ms))
end

-- Empties an account's queues: no schedule waits, and none is held. The keys of its lanes go
-- with its other keys.
local function clear_account(prefix, account)
  local base = prefix .. account .. ':'
  redis.call('UNLINK', base .. K.WAITING, base .. K.LANED, base .. K.HELD, base .. K.TRIED,
    base .. K.LANES, base .. K.LANE_HEADS)
end

-- A claim ends an account's pause at this moment (ms; nil: it does not end by itself).
local function time_pause(prefix, account, ends_ms)
  look_again(prefix, '!' .. account, ends_ms)
end

-- Ends an account's pause as of a moment (ms). Lateness of what was due before counts from then.
local function end_pause(prefix, account, at_ms)
  local key = prefix .. account .. ':' .. K.ACCOUNT
  redis.call('HDEL', key, 'paused', 'paused_until', 'paused_by', 'paused_note')
  time_pause(prefix, account, nil)
  redis.call('ZADD', prefix .. K.RESUMED, at_ms, account)
  if redis.call('HEXISTS', key, 'suspended') == 0 then
    start_account(prefix, account)
  end
end

-- Makes room for a lane among its account's; false if that has as many as it may have.
local function enlist(queue)
  if not of_lanes().has_room(queue) then
    return false
  end
  redis.call('ZADD', queue.lanes, 0, queue.lane)
  return true
end

-- After a change of a lane's settings.
local function relook(queue)
  of_lanes().relook(queue)
end
