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
--          account over its quota, and none of it is stored, -4: a key of the account is
--          damaged, and nothing of it is changed,
--          {how many were stored then, the note kept then}: the same was asked before
--@include now
--@include lifecycle/place
--@include accounts/ledger
--@include lifecycle/weight
local prefix, ttl_ms, once_ttl_ms = KEYS[1], ARGV[1], ARGV[2]
local groups, accounts = {}, {} -- in order; account's local name -> its state
local keys, there = {}, {} -- keys of all schedules, and which of these are stored
local quotas, first = {}, 4 + 2 * ARGV[3]
for i = 4, first - 1, 2 do
  quotas[ARGV[i]] = tonumber(ARGV[i + 1])
end
-- Reading comes first; an account for which it raises is damaged.
local function read(account)
  local base = account.base
  local stored = redis.call('HMGET', base .. K.ACCOUNT, 'credits', 'spent', 'plan', 'bytes', 'settled')
  account.left, account.spent = number(stored[1] or -1), number(stored[2])
  account.quota = quotas[stored[3]] or math.huge
  account.bytes, account.over = stored_bytes(base, stored[4], stored[5])
end

local function account_of(name)
  local account = accounts[name]
  if not account then
    account = {queue = queue_of(prefix, name), base = prefix .. name .. ':', new = {}, waiting = {},
      notes = {}, weight = 0, earliest = math.huge}
    account.sound = pcall(read, account)
    accounts[name] = account
  end
  return account
end

local function read_note(key)
  local known = redis.call('GET', key)
  return known and (#known >= 18 or error('DAMAGED', 0)) and known
end

local i = first
while i <= #ARGV do
  local account, count = account_of(ARGV[i]), tonumber(ARGV[i + 3])
  local group = {account = account, first = i + 4, count = count, keys = #keys, keep = ARGV[i + 2]}
  if ARGV[i + 1] ~= '' then
    group.once = account.base .. K.ONCE .. ARGV[i + 1]
    local sound, known = pcall(read_note, group.once)
    account.sound, group.known = account.sound and sound, known
  end
  local base, last = account.base .. K.SCHEDULE, #keys
  for n = 1, count do
    keys[last + n] = base .. ARGV[i + 1 + 3 * n]
  end
  groups[#groups + 1] = group
  i = i + 4 + count * 3
end

-- All ids of a call are distinct, and only a repeat finds any: one command asks for many.
local function any_stored()
  for n = 1, #keys, 1000 do
    if redis.call('EXISTS', unpack(keys, n, math.min(n + 999, #keys))) > 0 then
      return true
    end
  end
  return false
end

if any_stored() then
  for _, group in ipairs(groups) do
    for n = group.keys + 1, group.keys + group.count do
      local found = redis.pcall('HEXISTS', keys[n], 'r')
      group.account.sound = group.account.sound and type(found) == 'number'
      there[keys[n]] = found == 1
    end
  end
end

-- What the once-key says: nil if it is new, or the reply to give.
local function asked_before(group)
  local known = group.once and (group.account.notes[group.once] or group.known)
  if not known then
    return nil
  end
  if string.sub(known, 1, 16) ~= string.sub(group.keep, 1, 16) then
    return -2
  end
  local high, low = string.byte(known, 17, 18)
  return {high * 256 + low, string.sub(known, 19)}
end

-- Whether a group would take its account over the quota. Only where it may is it looked at which of
-- it are there already, or cannot be paid for.
local function is_too_much(account, group)
  local stored = account.bytes + account.weight
  local bytes, left, last = stored, account.left, group.count - 1
  for n = 0, last do
    bytes = bytes + weight_of(#ARGV[group.first + 3 * n + 2])
  end
  if bytes <= account.quota then
    return false
  end
  bytes = stored
  for n = 0, last do
    if left > 0 and not there[keys[group.keys + n + 1]] then
      bytes, left = bytes + weight_of(#ARGV[group.first + 3 * n + 2]), left - 1
    end
  end
  return bytes > math.max(account.quota, stored)
end

-- Takes up a group's new schedules, unless something speaks against it; returns its reply.
local function take_up(group)
  local account = group.account
  if account.left == -1 then
    return -1
  end
  local before = asked_before(group)
  if before then
    return before
  end
  if is_too_much(account, group) then
    return -3
  end
  local new, waiting, stored = account.new, account.waiting, 0
  local last, left, weight, earliest = #new, account.left, account.weight, account.earliest
  for n = 1, group.count do
    local key, place = keys[group.keys + n], group.first + 3 * n - 3
    if not there[key] then
      if left < 1 then
        break
      end
      local request, due = ARGV[place + 2], tonumber(ARGV[place + 1])
      new[last + 1], new[last + 2] = key, request
      waiting[last + 1], waiting[last + 2] = ARGV[place + 1], ARGV[place]
      last, left, weight = last + 2, left - 1, weight + weight_of(#request)
      earliest = due < earliest and due or earliest
    end
    stored = stored + 1
  end
  account.left, account.weight, account.earliest = left, weight, earliest
  if group.once and stored > 0 then
    account.notes[group.once] = string.sub(group.keep, 1, 16)
      .. string.char(math.floor(stored / 256), stored % 256) .. string.sub(group.keep, 17)
  end
  return stored
end

for _, group in ipairs(groups) do
  group.reply = group.account.sound and take_up(group)
end

local function sum_up(account)
  local taken = #account.new / 2
  if taken > 0 then
    account.sums = {'credits', whole(account.left), 'spent', whole(plus(account.spent, taken)),
      'bytes', whole(plus(account.bytes, account.weight))}
    account.movement = moved_credits(account.base, 'spent', taken)
  end
end

for _, account in pairs(accounts) do
  account.sound = account.sound and pcall(sum_up, account)
end

-- Writing comes last, and cannot fail. Only the first write of each account checks its key itself.
check_heads(prefix)

local function store(account)
  local base, new = account.base, account.new
  wait(account.queue, account.waiting, account.earliest)
  for n = 1, #new, 2 do
    redis.call('HSET', new[n], 'r', new[n + 1])
  end
  redis.call('HSET', base .. K.ACCOUNT, unpack(account.sums))
  if account.over then
    settle(base, account.over)
  end
  write(account.movement, ttl_ms)
end

for _, account in pairs(accounts) do
  if account.sound and account.sums then
    account.sound = pcall(store, account)
  end
  if account.sound then
    for key, note in pairs(account.notes) do
      redis.call('SET', key, note, 'PX', once_ttl_ms)
    end
  end
end

local replies = {}
for n, group in ipairs(groups) do
  replies[n] = group.account.sound and group.reply or -4
end
return {now_us, replies}
