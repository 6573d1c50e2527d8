#!lua flags=allow-oom
-- Sees to it that claims look in time at accounts of which something waits: at their schedules, their
-- lanes and their callbacks, and that a pause ends. Nothing but this finds a turn that was lost, as
-- by a worker of another version, or one in the future because the server's clock was set back. A
-- damaged account keeps its turn. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     rank of the first account to look at, how many
-- Returns  {now (us), how many were looked at, those of these that have lanes or recurring schedules}
--@include shared/now
--@include lifecycle/row/place
--@include lifecycle/callback/callbacks
--@include lifecycle/row/control
local prefix, first, count = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local heads = prefix .. K.HEADS

-- Claims look at what `name` stands for when the first of it is due (ms; nil: nothing waits), or with
-- a backlog before.
local function mend_head(name, due)
  local head = due and redis.call('ZSCORE', heads, name)
  if due and (not head or head == '-inf' or tonumber(head) > math.max(due, now_ms)) then
    look_again(prefix, name, math.max(due, now_ms))
  end
end

local function first_of(key, from)
  return tonumber(redis.call('ZRANGE', key, from, '+inf', 'BYSCORE', 'LIMIT', 0, 1,
    'WITHSCORES')[2] or '')
end

local function mend_callbacks(account, suspended)
  local queue = callbacks_of(prefix, account)
  check_callbacks(queue)
  local turn = redis.call('ZSCORE', queue.turns, account)
  if redis.call('EXISTS', queue.pending) == 0 then
    return
  elseif suspended then
    stop_callbacks(prefix, account)
  elseif turn == '-inf' then
    start_callbacks(prefix, account)
  else
    relook_at_callbacks(queue)
  end
end

local function mend(account)
  local base = prefix .. account .. ':'
  local suspended, paused, until_ms = unpack(redis.call('HMGET', base .. K.ACCOUNT, 'suspended',
    'paused', 'paused_until'))
  if suspended or paused then
    for _, name in ipairs({account, account .. '/'}) do
      if redis.call('ZSCORE', heads, name) ~= '-inf' then
        look_again(prefix, name, '-inf')
      end
    end
  else
    mend_head(account, first_of(base .. K.WAITING, '-inf'))
    mend_head(account .. '/', first_of(base .. K.LANE_HEADS, '(-inf'))
  end
  mend_head('!' .. account, paused and tonumber(until_ms or ''))
  mend_callbacks(account, suspended)
  -- Nothing starts before the end of a pause, from which lateness counts.
  local resumed_ms = redis.call('ZSCORE', prefix .. K.RESUMED, account)
  if resumed_ms and tonumber(resumed_ms) > now_ms then
    redis.call('ZADD', prefix .. K.RESUMED, now_ms, account)
  end
end

check_heads(prefix)
local accounts, with_more = redis.call('ZRANGE', prefix .. K.ACCOUNTS, first, first + count - 1), {}
for _, account in ipairs(accounts) do
  local base = prefix .. account .. ':'
  if redis.call('EXISTS', base .. K.WAITING, base .. K.LANED, base .. K.CALLBACKS) > 0 then
    pcall(mend, account)
  end
  if redis.call('EXISTS', base .. K.LANES, base .. K.RULES) > 0 then
    with_more[#with_more + 1] = account
  end
end
return {now_us, #accounts, with_more}
