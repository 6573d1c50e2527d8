-- Where schedules stand until they end (keys.py). A queue is an account's schedules without a lane,
-- by the account's name, or those of one lane, by `<account>/<lane>`: `waiting` is where a token
-- finds both kinds. `heads` has when claims look at an account, and, by `<account>/`, at its lanes.
-- Only this file and `lane` write any of that. Needs `now`.

--@include members
-- Both raise if a key is damaged; for use before the first write.
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
--@include lifecycle/lane
  end
  return lanes
end

local function queue_of(prefix, name)
  local slash = string.find(name, '/', 1, true)
  if slash then
    return of_lanes().queue_of(prefix, string.sub(name, 1, slash - 1), string.sub(name, slash + 1))
  end
  local base = prefix .. name .. ':'
  return {prefix = prefix, name = name, waiting = base .. K.WAITING, held = base .. K.HELD,
    tried = base .. K.TRIED}
end

local checked = {} -- by `waiting`: a call may meet a thousand lanes of an account
local function check_queue(queue)
  if not checked[queue.waiting] then
    redis.call('ZCARD', queue.waiting)
    redis.call('ZCARD', queue.held)
    redis.call('HLEN', queue.tried)
    if queue.lane then
      redis.call('ZCARD', queue.heads)
      redis.call('ZCARD', queue.lanes)
    end
    checked[queue.waiting] = true
  end
  if queue.lane then
    of_lanes().check(queue)
  end
end

-- New schedules wait, or waiting ones move. due: flat, when due (ms) and schedule, maybe none;
-- earliest (ms).
local function wait(queue, due, earliest)
  if #due == 0 then
    return
  end
  each_thousand('ZADD', queue.waiting, due)
  if queue.lane then
    of_lanes().wait(queue, due, earliest)
  else
    look_at(queue.prefix, queue.name, earliest)
  end
end

-- A worker has schedules until its lease ends. ends: flat, lease's end (ms) and schedule; since: of
-- newly held ones, flat, when due and schedule; tried: flat, schedule and its attempt.
local function hold(queue, ends, since, tried)
  each_thousand('ZADD', queue.waiting, ends)
  each_thousand('ZADD', queue.held, since)
  each_thousand('HSET', queue.tried, tried)
end

-- The leases of held schedules end at another time (ms), all at the same one.
local function prolong(queue, ends, tried, lease_end)
  hold(queue, ends, {}, tried)
  if queue.lane then
    of_lanes().prolong(queue, ends, lease_end)
  else
    -- It may be earlier than the account is to be looked at.
    look_at(queue.prefix, queue.name, lease_end)
  end
end

-- Held schedules wait again. tried: flat, schedule and attempts used; fresh: those with none.
local function put_back(queue, schedules, due, tried, fresh, earliest)
  each_thousand('ZREM', queue.held, schedules)
  each_thousand('HSET', queue.tried, tried)
  each_thousand('HDEL', queue.tried, fresh)
  if queue.lane then
    of_lanes().leave(queue, schedules)
  end
  wait(queue, due, earliest)
  if queue.lane then
    of_lanes().relook_left(queue)
  end
end

-- Waiting schedules go to another queue.
local function leave(queue, schedules)
  if #schedules == 0 then
    return
  end
  each_thousand('ZREM', queue.waiting, schedules)
  if queue.lane then
    of_lanes().leave(queue, schedules)
    of_lanes().relook_left(queue)
  end
end

-- Schedules that end stand nowhere.
local function take_out(queue, schedules)
  each_thousand('ZREM', queue.waiting, schedules)
  each_thousand('ZREM', queue.held, schedules)
  each_thousand('HDEL', queue.tried, schedules)
  if queue.lane then
    of_lanes().leave(queue, schedules)
    of_lanes().relook_left(queue)
  end
end
