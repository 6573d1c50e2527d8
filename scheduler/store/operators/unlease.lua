#!lua flags=allow-oom
-- Gives back schedules whose leases have ended: due as before, the attempt used. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, most to give back
-- Returns  {now (us), how many were given back, when the last lease ends (ms; -1: none is left), of
--          those it looked at: all, unless the most were given back}
--@include shared/now
--@include lifecycle/row/place
--@include lifecycle/row/heads
local prefix, account = KEYS[1], ARGV[1]
local base, count, last_end = KEYS[1] .. ARGV[1] .. ':', 0, -1
local queues, parts = {}, {} -- by their names; the schedules that each gets back
check_heads(prefix)

local function part_of(name)
  if not parts[name] then
    queues[name] = queue_of(prefix, name)
    check_queue(queues[name])
    parts[name] = {schedules = {}, due = {}, tried = {}, earliest = math.huge}
  end
  return parts[name]
end

local function give_back(name, schedule, due_ms)
  local part = part_of(name)
  local schedules, due, tried = part.schedules, part.due, part.tried
  schedules[#schedules + 1] = schedule
  due[#due + 1], due[#due + 2] = due_ms, schedule
  part.earliest = math.min(part.earliest, tonumber(due_ms))
  if redis.call('HEXISTS', queues[name].tried, schedule) == 0 then
    tried[#tried + 1], tried[#tried + 2] = schedule, 1
  end
end

local members = redis.call('ZRANGE', base .. K.HELD, 0, -1, 'WITHSCORES')
for i = 1, #members, 2 do
  if count == tonumber(ARGV[2]) then
    break
  end
  local schedule, name = members[i], account
  local lease_end = redis.call('ZSCORE', base .. K.WAITING, schedule)
  if not lease_end then
    local request = redis.call('HGET', base .. schedule, 'r')
    local lane = request and lane_of(request)
    name = lane and account .. '/' .. lane or account
    lease_end = redis.call('ZSCORE', base .. K.LANED, schedule)
  end
  lease_end = tonumber(lease_end or '0')
  if lease_end > now_ms then
    last_end = math.max(last_end, math.ceil(lease_end))
  else
    count = count + 1
    give_back(name, schedule, members[i + 1])
  end
end
for name, part in pairs(parts) do
  put_back(queues[name], part.schedules, part.due, part.tried, {}, part.earliest)
end
return {now_us, count, last_end}
