#!lua flags=allow-oom
-- Claims what is due: moves each schedule's visibility to the end of a lease and writes the
-- claim's token into it. Nothing is popped, so what a lost worker held becomes due by itself.
-- A repeat with another token claims other schedules; what a lost reply held waits for its lease.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  token
-- ARGV[2]  lease (ms)
-- ARGV[3]  most schedules to claim
-- ARGV[4]  most accounts to take them from
-- ARGV[5]  grace (ms): above 0, a lease that ended is not taken over but prolonged by this much
-- ARGV[6]  lateness (ms): only what has been due for at least this long
-- ARGV[7]  when it was asked for (ms), or '': a lease that ended later is not taken over. A claim
--          that reaches us late may have waited while nobody could prolong a lease.
-- ARGV[8…] accounts to pass over, which hold more than their share of the worker
-- Writes   <prefix>backlog for a second, if due ones are left: since when (ms). It calls workers to
--          help for whom the shard is not their own.
-- Returns  {now (us), when to look next (ms; -1: nothing waits), claimed}, where claimed is flat:
--          account, schedule, created (ms), attempt, packed request; five for each schedule
--@include now
local prefix, token = KEYS[1], ARGV[1]
local lease_end = now_ms + tonumber(ARGV[2])
local room, most_accounts = tonumber(ARGV[3]), tonumber(ARGV[4])
local grace_end = tonumber(ARGV[5]) > 0 and now_ms + tonumber(ARGV[5]) or nil
local now = now_us / 1000
local asked_at = tonumber(ARGV[7]) or math.huge
local due_by = string.format('%.3f', now - tonumber(ARGV[6]))
local heads = prefix .. 'heads'
local claimed = {}

local passed_over, count_passed_over = {}, 0
for i = 8, #ARGV do
  passed_over[ARGV[i]] = true
  count_passed_over = count_passed_over + 1
end

-- Adds scores and members in as few calls as Lua's stack allows.
local function add_all(set, scored)
  for i = 1, #scored, 1000 do
    redis.call('ZADD', set, unpack(scored, i, math.min(i + 999, #scored)))
  end
end

-- Claims up to `most` due schedules of an account; returns how many were looked at.
local function take(account, most)
  local base = prefix .. account .. ':'
  local waiting, held = base .. 'waiting', base .. 'held'
  local due = redis.call('ZRANGE', waiting, '-inf', due_by, 'BYSCORE', 'LIMIT', 0, most,
    'WITHSCORES')
  local visible_again, newly_held = {}, {}
  for i = 1, #due, 2 do
    local schedule = due[i]
    local key = base .. 's:' .. schedule
    local stored = redis.call('HMGET', key, 'r', 'c', 'n', 't')
    local v = #visible_again
    if not stored[1] then
      -- Nothing to fire: only a broken store has this (`postdate check` tells), and it must not
      -- stand in the way of what is behind it.
      redis.call('ZREM', waiting, schedule)
    elseif stored[4] and grace_end then
      visible_again[v + 1], visible_again[v + 2] = grace_end, schedule
    elseif not stored[4] or tonumber(due[i + 1]) <= asked_at then
      -- The first attempt is not written: a token without a number says the same.
      local attempt = tonumber(stored[3] or (stored[4] and '1') or '0') + 1
      if attempt > 1 then
        redis.call('HSET', key, 't', token, 'n', attempt)
      else
        redis.call('HSET', key, 't', token)
      end
      visible_again[v + 1], visible_again[v + 2] = lease_end, schedule
      if not stored[4] then
        local h = #newly_held
        newly_held[h + 1], newly_held[h + 2] = due[i + 1], schedule
      end
      local n = #claimed
      claimed[n + 1], claimed[n + 2], claimed[n + 3] = account, schedule, stored[2]
      claimed[n + 4], claimed[n + 5] = attempt, stored[1]
    end
  end
  add_all(waiting, visible_again)
  add_all(held, newly_held)
  return #due / 2
end

-- Sets when an account is to be looked at next, and returns when its earliest is due. One with a
-- backlog goes behind those that have waited longer for their turn, so that many floods cannot
-- starve a neighbour; a microsecond keeps it before those that were served after it just now, or
-- their names would decide who is served more often.
local function set_head(account, served_after)
  local first = redis.call('ZRANGE', prefix .. account .. ':waiting', 0, 0, 'WITHSCORES')
  if #first == 0 then
    redis.call('ZREM', heads, account)
    return math.huge
  end
  local due = tonumber(first[2])
  local turn = now - served_after / 1000
  redis.call('ZADD', heads, string.format('%.3f', math.max(due, turn)), account)
  return due
end

local accounts = {}
local due_heads = redis.call('ZRANGE', heads, '-inf', due_by, 'BYSCORE', 'LIMIT', 0,
  most_accounts + count_passed_over)
for _, account in ipairs(due_heads) do
  if not passed_over[account] and #accounts < most_accounts then
    accounts[#accounts + 1] = account
  end
end

local served, backlogged = {}, {}
local share = math.max(1, math.floor(room / math.max(1, #accounts)))
for _, account in ipairs(accounts) do
  if room > 0 then
    local most = math.min(share, room)
    local looked_at = take(account, most)
    room = room - looked_at
    served[#served + 1] = account
    if looked_at == most then
      backlogged[#backlogged + 1] = account
    end
  end
end
for _, account in ipairs(backlogged) do
  if room > 0 then
    room = room - take(account, room)
  end
end

local late_since = math.huge
for place, account in ipairs(served) do
  late_since = math.min(late_since, set_head(account, #served - place))
end
if late_since < now then
  redis.call('SET', prefix .. 'backlog', late_since, 'PX', 1000)
end

local next_look = -1
local coming = redis.call('ZRANGE', heads, 0, count_passed_over, 'WITHSCORES')
for i = #coming - 1, 1, -2 do
  if not passed_over[coming[i]] then
    next_look = coming[i + 1]
  end
end
return {now_us, tostring(next_look), claimed}
