#!lua
-- Stores schedules and takes a credit for each, in one step. They come in groups; of a group whose
-- account cannot pay for all, the first ones are stored that it can pay for. Safe to repeat: what
-- is there already is not paid for again. A group may carry a once-key: then it is stored once in
-- the key's life, and a later group with the same key is told what the first one did.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  how long a day's rollup is kept (ms)
-- ARGV[2]  how long a once-key is kept (ms)
-- ARGV[3…] for each group: account, once-key ('': none), fingerprint of what was asked, note to
--          keep with the key, how many schedules, and for each of these: schedule, triggerAt (ms),
--          packed request
-- Returns  {now (us), a reply for each group}: {1, how many are stored (now or before)},
--          {2, how many were stored then, the note kept then}: the same was asked before,
--          {3}: something else was asked with this key before, {-1}: no such account
--@include now
--@include ledger
local prefix, ttl_ms, once_ttl_ms = KEYS[1], ARGV[1], ARGV[2]
local left, replies, writes = {}, {}, {}
local asked_here = {}

local function credits_left(base)
  if left[base] == nil then
    left[base] = tonumber(redis.call('HGET', base .. 'account', 'credits') or '-1')
  end
  return left[base]
end

-- What the once-key says: false if it is new, or the reply to give.
local function asked_before(key, fingerprint)
  local known = asked_here[key] or redis.call('HMGET', key, 'fingerprint', 'stored', 'note')
  if not known[1] then
    return false
  end
  if known[1] ~= fingerprint then
    return {3}
  end
  return {2, tonumber(known[2]), known[3]}
end

-- Checks a group that begins at `i` and plans its writes.
local function plan(i)
  local base, fingerprint, note, count = prefix .. ARGV[i] .. ':', ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  if credits_left(base) == -1 then
    return {-1}
  end
  local once = ARGV[i + 1] ~= '' and base .. 'once:' .. ARGV[i + 1]
  local before = once and asked_before(once, fingerprint)
  if before then
    return before
  end
  local group = {base = base, account = ARGV[i], places = {}, once = once, known = {fingerprint, 0, note}}
  local stored = 0
  for place = i + 5, i + 4 + count * 3, 3 do
    if redis.call('EXISTS', base .. 's:' .. ARGV[place]) == 0 then
      if left[base] < 1 then
        break
      end
      left[base] = left[base] - 1
      table.insert(group.places, place)
    end
    stored = stored + 1
  end
  if stored > 0 then
    group.known[2] = stored
    if once then
      asked_here[once] = group.known
    end
    table.insert(writes, group)
  end
  return {1, stored}
end

local i = 3
while i <= #ARGV do
  table.insert(replies, plan(i))
  i = i + 5 + ARGV[i + 4] * 3
end

local taken = {} -- account's prefix -> credits
for _, group in ipairs(writes) do
  local base, earliest = group.base, math.huge
  for _, place in ipairs(group.places) do
    redis.call('HSET', base .. 's:' .. ARGV[place], 'r', ARGV[place + 2], 'c', now_ms)
    redis.call('ZADD', base .. 'waiting', ARGV[place + 1], ARGV[place])
    earliest = math.min(earliest, tonumber(ARGV[place + 1]))
  end
  if #group.places > 0 then
    -- Not before now: what comes in late does not push ahead of accounts that wait their turn.
    redis.call('ZADD', prefix .. 'heads', 'LT', math.max(earliest, now_ms), group.account)
    taken[base] = (taken[base] or 0) + #group.places
  end
  if group.once then
    local known = group.known
    redis.call('HSET', group.once, 'fingerprint', known[1], 'stored', known[2], 'note', known[3])
    redis.call('PEXPIRE', group.once, once_ttl_ms)
  end
end
for base, credits in pairs(taken) do
  redis.call('HINCRBY', base .. 'account', 'credits', -credits)
  redis.call('HINCRBY', base .. 'account', 'spent', credits)
  move_credits(base, 'spent', credits, ttl_ms)
end
return {now_us, replies}
