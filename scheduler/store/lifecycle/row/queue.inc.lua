-- Where schedules stand until they end (keys.py). A queue is an account's schedules without a lane,
-- by the account's name, or those of one lane, by `<account>/<lane>`: `waiting` is where a token
-- finds both kinds. `heads` has when claims look at an account, and, by `<account>/`, at its lanes.
-- Only this file, `place` and `lane` write any of that. Needs `now`.

--@include shared/members
-- Raises if the key is damaged; for use before the first write.
local function check_heads(prefix)
  redis.call('ZCARD', prefix .. K.HEADS)
end

-- Claims look at an account no later than `at` (ms). Not before now: what comes in late does not
-- push ahead of those that wait their turn.
local function look_at(prefix, name, at)
  redis.call('ZADD', prefix .. K.HEADS, 'LT', math.max(at, now_ms), name)
end

-- Claims look at an account at `at` and not before; nil: nothing waits in it.
local function look_again(prefix, name, at)
  if at then
    redis.call('ZADD', prefix .. K.HEADS, at, name)
  else
    redis.call('ZREM', prefix .. K.HEADS, name)
  end
end

local lanes = nil
-- The same functions for lanes, and more of them, which are made when a lane is first met.
local function of_lanes()
  if not lanes then
    lanes = {}
--@include lifecycle/row/lane
  end
  return lanes
end

local function queue_of(prefix, name)
  local slash = string.find(name, '/', 1, true)
  if slash then
    return of_lanes().queue_of(prefix, string.sub(name, 1, slash - 1), string.sub(name, slash + 1))
  end
  local base = prefix .. name .. ':'
  return {prefix = prefix, name = name, base = base, waiting = base .. K.WAITING,
    held = base .. K.HELD, tried = base .. K.TRIED}
end

-- A worker has schedules until its lease ends. ends: flat, lease's end (ms) and schedule; since: of
-- newly held ones, flat, when due and schedule; tried: flat, schedule and its attempt.
local function hold(queue, ends, since, tried)
  each_thousand('ZADD', queue.waiting, ends)
  each_thousand('ZADD', queue.held, since)
  each_thousand('HSET', queue.tried, tried)
end
