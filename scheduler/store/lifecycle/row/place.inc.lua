-- Moves schedules between queues, and within them. Needs `now`.

--@include lifecycle/row/queue
local checked = {} -- by `waiting`: a call may meet a thousand lanes of an account
-- Raises if a key is damaged; for use before the first write. Notes whether any schedule of its
-- account was tried before, as `is_tried`.
local function check_queue(queue)
  local is_tried = checked[queue.waiting]
  if is_tried == nil then
    redis.call('ZCARD', queue.waiting)
    redis.call('ZCARD', queue.held)
    is_tried = redis.call('HLEN', queue.tried) > 0
    if queue.lane then
      redis.call('ZCARD', queue.heads)
      redis.call('ZCARD', queue.lanes)
    end
    checked[queue.waiting] = is_tried
  end
  queue.is_tried = is_tried
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
  if queue.is_tried then
    each_thousand('HDEL', queue.tried, schedules)
  end
  if queue.lane then
    of_lanes().leave(queue, schedules)
    of_lanes().relook_left(queue)
  end
end
