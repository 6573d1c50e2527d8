#!lua
-- Stores schedules and takes a credit for each, in one step. They come in groups; of a group whose
-- account cannot pay for all, the first ones are stored that it can pay for. Safe to repeat: what
-- is there already is not paid for again. A group may carry a once-key: then it is stored once in
-- the key's life, and a later group with the same key is told what the first one did.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  how long a day's rollup is kept (ms)
-- ARGV[2]  how long a once-key is kept (ms)
-- ARGV[3]  how many plans have a quota
-- ARGV[4…] for each of these: plan, what its schedules may weigh (bytes)
-- ARGV[…]  for each group: account, once-key ('': none), what to keep with it (16 bytes that tell
--          what was asked, then a note; '' without a once-key), how many schedules, and for each of
--          these: schedule, triggerAt (ms), packed request
-- Returns  {now (us), a reply for each group}: how many are stored (now or before), -1: no such
--          account, -2: something else was asked with this key before, -3: the group would take the
--          account over its quota, and none of it is stored,
--          {how many were stored then, the note kept then}: the same was asked before
--@include now
--@include due
--@include members
--@include number
--@include accounts/ledger
--@include schedules/weight
local prefix, ttl_ms, once_ttl_ms = KEYS[1], ARGV[1], ARGV[2]
local accounts, replies = {}, {} -- account's local name -> what becomes of it
local quotas, first = {}, 4 + 2 * ARGV[3]
for i = 4, first - 1, 2 do
  quotas[ARGV[i]] = tonumber(ARGV[i + 1])
end

local function account_of(name)
  local account = accounts[name]
  if not account then
    local base = prefix .. name .. ':'
    local stored = redis.call('HMGET', base .. K.ACCOUNT, 'credits', 'spent', 'plan', 'bytes', 'settled')
    account = {base = base, left = tonumber(stored[1] or '-1'), spent = tonumber(stored[2]),
      quota = quotas[stored[3]] or math.huge, new = {}, notes = {}, earliest = math.huge}
    account.bytes, account.over = stored_bytes(base, stored[4], stored[5])
    accounts[name] = account
  end
  return account
end

-- What the once-key says: nil if it is new, or the reply to give.
local function asked_before(account, key, keep)
  local known = account.notes[key] or redis.call('GET', key)
  if not known then
    return nil
  end
  if string.sub(known, 1, 16) ~= string.sub(keep, 1, 16) then
    return -2
  end
  local high, low = string.byte(known, 17, 18)
  return {high * 256 + low, string.sub(known, 19)}
end

-- Whether a group that begins at `i` would take its account over the quota. Only where it may is it
-- looked at which of it are there already, or cannot be paid for.
local function is_too_much(account, i, count)
  local bytes, left = account.bytes, account.left
  for place = i + 4, i + 3 + count * 3, 3 do
    bytes = bytes + weight_of(#ARGV[place + 2])
  end
  if bytes <= account.quota then
    return false
  end
  bytes = account.bytes
  for place = i + 4, i + 3 + count * 3, 3 do
    if left > 0 and redis.call('EXISTS', account.base .. K.SCHEDULE .. ARGV[place]) == 0 then
      bytes, left = bytes + weight_of(#ARGV[place + 2]), left - 1
    end
  end
  return bytes > math.max(account.quota, account.bytes)
end

-- Stores a group that begins at `i`, after all that can speak against it.
local function store(i, count)
  local account = account_of(ARGV[i])
  if account.left == -1 then
    return -1
  end
  local once = ARGV[i + 1] ~= '' and account.base .. K.ONCE .. ARGV[i + 1]
  local before = once and asked_before(account, once, ARGV[i + 2])
  if before then
    return before
  end
  if is_too_much(account, i, count) then
    return -3
  end
  local base, new, stored = account.base .. K.SCHEDULE, account.new, 0
  local enough = account.left >= count
  for place = i + 4, i + 3 + count * 3, 3 do
    local key = base .. ARGV[place]
    if not enough and account.left < 1 and redis.call('EXISTS', key) == 0 then
      break
    end
    if redis.call('HSETNX', key, 'r', ARGV[place + 2]) == 1 then
      account.left = account.left - 1
      account.bytes = account.bytes + weight_of(#ARGV[place + 2])
      new[#new + 1], new[#new + 2] = ARGV[place + 1], ARGV[place]
      account.earliest = math.min(account.earliest, tonumber(ARGV[place + 1]))
    end
    stored = stored + 1
  end
  if once and stored > 0 then
    account.notes[once] = string.sub(ARGV[i + 2], 1, 16)
      .. string.char(math.floor(stored / 256), stored % 256) .. string.sub(ARGV[i + 2], 17)
  end
  return stored
end

local i = first
while i <= #ARGV do
  local count = tonumber(ARGV[i + 3])
  replies[#replies + 1] = store(i, count)
  i = i + 4 + count * 3
end

for name, account in pairs(accounts) do
  local base, taken = account.base, #account.new / 2
  if taken > 0 then
    each_thousand('ZADD', base .. K.WAITING, account.new)
    look_at(prefix, name, account.earliest)
    redis.call('HSET', base .. K.ACCOUNT, 'credits', whole(account.left),
      'spent', whole(account.spent + taken),
      'bytes', whole(account.bytes))
    if account.over then
      settle(base, account.over)
    end
    move_credits(base, 'spent', taken, ttl_ms)
  end
  for key, note in pairs(account.notes) do
    redis.call('SET', key, note, 'PX', once_ttl_ms)
  end
end
return {now_us, replies}
