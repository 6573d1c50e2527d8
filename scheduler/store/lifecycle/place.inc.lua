-- Where schedules stand until they end (keys.py): in `waiting`, `held` and `tried` of a queue,
-- which is an account; `heads` has when claims look at each queue. Only this file writes these
-- four. Needs `now`.

--@include members
local function queue_of(prefix, name)
  local base = prefix .. name .. ':'
  return {prefix = prefix, name = name, waiting = base .. K.WAITING, held = base .. K.HELD,
    tried = base .. K.TRIED}
end

-- Both raise if a key is damaged; for use before the first write.
local function check_heads(prefix)
  redis.call('ZCARD', prefix .. K.HEADS)
end

local function check_queue(queue)
  redis.call('ZCARD', queue.waiting)
  redis.call('ZCARD', queue.held)
  redis.call('HLEN', queue.tried)
end

-- Claims look at a queue no later than `at` (ms). Not before now: what comes in late does not push
-- ahead of queues that wait their turn.
local function look_at(prefix, name, at)
  redis.call('ZADD', prefix .. K.HEADS, 'LT', math.max(at, now_ms), name)
end

-- Claims look at a queue at `at` and not before; nil: nothing waits in it.
local function look_again(prefix, name, at)
  if at then
    redis.call('ZADD', prefix .. K.HEADS, at, name)
  else
    redis.call('ZREM', prefix .. K.HEADS, name)
  end
end

-- New schedules wait, or waiting ones move. due: flat, when due (ms) and schedule; earliest (ms).
local function wait(queue, due, earliest)
  each_thousand('ZADD', queue.waiting, due)
  look_at(queue.prefix, queue.name, earliest)
end

-- A worker has schedules until its lease ends. ends: flat, lease's end (ms) and schedule; since: of
-- newly held ones, flat, when due and schedule; tried: flat, schedule and its attempt.
local function hold(queue, ends, since, tried)
  each_thousand('ZADD', queue.waiting, ends)
  each_thousand('ZADD', queue.held, since)
  each_thousand('HSET', queue.tried, tried)
end

-- Held schedules wait again. tried: flat, schedule and attempts used; fresh: those with none.
local function put_back(queue, schedules, due, tried, fresh, earliest)
  each_thousand('ZREM', queue.held, schedules)
  each_thousand('HSET', queue.tried, tried)
  each_thousand('HDEL', queue.tried, fresh)
  wait(queue, due, earliest)
end

-- Empties a queue: no schedule waits, and none is held.
local function clear(queue)
  redis.call('UNLINK', queue.waiting, queue.held, queue.tried)
end

-- Schedules that end stand nowhere.
local function take_out(queue, schedules)
  each_thousand('ZREM', queue.waiting, schedules)
  each_thousand('ZREM', queue.held, schedules)
  each_thousand('HDEL', queue.tried, schedules)
end
