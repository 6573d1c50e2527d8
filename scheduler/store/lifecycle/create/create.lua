#!lua
-- Stores groups of schedules, each for a credit. Of new ones, the first that the account can pay
-- for are stored. Replays are judged one by one; the ended schedule that a replay is made of notes
-- it, leaves the dead letters, and is forgotten when others are. Safe to repeat: stored ones are
-- not paid for again. A group with a once-key is stored once in the key's life; a later one gets
-- the result of the first. A large group may come in parts, one call after the other.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  how long a day's rollup is kept (ms)
-- ARGV[2]  how long a once-key is kept (ms), if its call has taken a credit; its note is weighed
-- ARGV[3]  how long an ended schedule is kept that is no dead letter (ms)
-- ARGV[4]  how many plans have a quota or a rate
-- ARGV[5…] for each of these: plan, what its schedules may weigh (bytes; '': any), requests a
--          second ('': any)
-- ARGV[…]  for each group: account, or '=' and the SHA-256 of an API key whose holder pays, if
--          the key is active and its account's rate allows one more request; once-key ('': none),
--          its note (a digest of the request, 16 bytes, the first id, 16 bytes, then the caller's
--          own); '' or, of a part, what `part.inc.lua` says; how many schedules, for each of
--          these: schedule, triggerAt (ms), packed request. A negative
--          count: rows may carry a reference or lane, and '+' follows the count. Replays have a
--          negative count too, and '1' follows to replay also those that were replayed before,
--          else '0'; each row ends with the ended schedule as a member of `failed`. If '' follows,
--          rows end as `on_existing.inc.lua` says
-- Returns  {now (us), for each group its verdict in a byte and what follows it}: DONE, and a
--          verdict in a byte for each schedule: DONE (now or before), UNPAID, of replays also
--          NO_ROOM, TOO_MANY_LANES, UNKNOWN, REPLAYED, DAMAGED, or what `on_existing.inc.lua`
--          answers; REPEATED, and the kept verdicts, a 0 and the note; UNKNOWN: no such account;
--          KEY_REUSED; NO_ROOM: together over the quota, TOO_MANY_LANES, none is stored; CHANGED
--          and LIMITED of `on_existing.inc.lua`: nothing was done; DAMAGED: a key of the account
--          is damaged, nothing of it was changed. By an API key: UNKNOWN also if it is not active,
--          SUSPENDED, LIMITED (beyond the rate). If the plan has a rate, an array: the verdict,
--          limit, remaining, until full (s), until allowed (s)
--@include shared/now
--@include shared/rate
--@include lifecycle/row/place
--@include shared/ledger
--@include lifecycle/row/weight
--@include lifecycle/create/part
--@include lifecycle/create/once
local prefix, ttl_ms, once_ttl_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local kept_until_ms = now_ms + ARGV[3]
local DONE, UNPAID = string.char(V.DONE), string.char(V.UNPAID)
local groups, accounts = {}, {} -- in order; account's local name -> its state
local keys, there = {}, {} -- keys of all schedules, and which of these are stored
local holders = {} -- SHA-256 of an API key -> its holder
local quotas, rates, first = {}, {}, 5 + 3 * ARGV[4]
for i = 5, first - 1, 3 do
  quotas[ARGV[i]], rates[ARGV[i]] = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
end
-- Reading comes first; an account for which it raises is damaged.
local function read(account)
  local base = account.base
  local stored = redis.call('HMGET', base .. K.ACCOUNT, 'credits', 'spent', 'plan', 'bytes',
    'settled', 'suspended')
  account.left, account.spent = number(stored[1] or -1), number(stored[2])
  account.quota, account.rate = quotas[stored[3]] or math.huge, rates[stored[3]]
  account.suspended, account.plan = stored[6], stored[3]
  account.bytes, account.over = stored_bytes(base, stored[4], stored[5])
end

local function account_of(name)
  local account = accounts[name]
  if not account then
    account = {name = name, queue = queue_of(prefix, name), base = prefix .. name .. ':', new = {},
      waiting = {}, notes = {}, fills = {}, filled = {}, weight = 0, earliest = math.huge,
      hours = {}}
    account.sound = pcall(read, account)
    accounts[name] = account
  end
  return account
end

-- The holder of an API key; an unknown key has an account that does not exist.
local function holder_of(sha256)
  local holder = holders[sha256]
  if not holder then
    local key = prefix .. K.API_KEY .. sha256
    local stored = redis.pcall('HMGET', key, 'active', 'account', 'used')
    holder = {key = key, account = account_of(stored[2] or ''), active = stored[1] == '1',
      stale = now_ms - (tonumber(stored[3] or 0) or 0) >= 60000}
    local account = holder.account
    if account.rate and not account.paid_until then
      local sound, paid_until = pcall(read_paid_until, account.base)
      account.sound, account.paid_until = account.sound and sound, paid_until
    end
    holders[sha256] = holder
  end
  return holder
end

local i, refers, meets = first, false, false -- whether rows may have references, or mean others
while i <= #ARGV do
  local holder = string.byte(ARGV[i]) == 61 and holder_of(string.sub(ARGV[i], 2))
  local account = holder and holder.account or account_of(ARGV[i])
  local count, width, row = tonumber(ARGV[i + 4]), 3, i + 5
  local group = {account = account, holder = holder, count = count, keys = #keys,
    keep = ARGV[i + 2], part = part_of(ARGV[i + 3])}
  if count < 0 then
    local kind = ARGV[i + 5]
    count, width, row, refers = -count, kind == '+' and 3 or 4, i + 6, true
    group.count, group.again, group.onto = count, kind == '1', kind == ''
    group.replays, group.refers = kind == '1' or kind == '0', true
    if group.onto and not account.met then
      account.met, account.moved, account.placed = {}, {}, {}
      meets = true
    end
  end
  group.first = row
  if ARGV[i + 1] ~= '' then
    group.once = account.base .. K.ONCE .. ARGV[i + 1]
    local sound, known = pcall(read_note, group)
    account.sound, group.known = account.sound and sound, known
  end
  local base, last = account.base .. K.SCHEDULE, #keys
  for n = 1, count do
    keys[last + n], row = base .. ARGV[row], row + width
  end
  groups[#groups + 1] = group
  i = row
end

-- All ids of a call are distinct, and only a repeat finds any, so one command asks for many.
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
    group.is_stored = there[keys[group.keys + 1]]
  end
end

local reference_of, reference_weight, refer, lane_in
local is_lane_beyond, has_too_many_lanes, parts_of
if refers then
--@include lifecycle/row/refer
end

-- Whether a group of new ones would take its account over the quota.
local function is_too_much(account, group)
  if account.quota == math.huge then
    return false
  end
  local stored, left = account.bytes + account.weight, account.left
  local bytes = stored
  for n = 1, group.count do
    -- Those that are stored already or cannot be paid for weigh nothing more.
    if left > 0 and not there[keys[group.keys + n]] then
      local request = ARGV[group.first + 3 * n - 1]
      bytes, left = bytes + weight_of(#request), left - 1
      if group.refers then
        bytes = bytes + reference_weight(request)
      end
    end
  end
  for _, weight in ipairs(later_of(group, 'weights')) do
    if left > 0 then
      bytes, left = bytes + weight, left - 1
    end
  end
  return bytes > math.max(account.quota, stored)
end

-- Takes up the schedule of a row, which is stored under `key`.
local function add(account, key, row)
  local new, waiting, request, at = account.new, account.waiting, ARGV[row + 2], ARGV[row + 1]
  local n, due = #new, at + 0
  new[n + 1], new[n + 2], waiting[n + 1], waiting[n + 2] = key, request, at, ARGV[row]
  account.left, account.weight = account.left - 1, account.weight + weight_of(#request)
  if refers then
    refer(account, key, row)
  end
  if due < account.earliest then
    account.earliest = due
  end
end

-- The verdicts on a group of new ones.
local function add_first(group)
  local account, stored = group.account, 0
  for n = 1, group.count do
    local key = keys[group.keys + n]
    if not there[key] then
      if account.left < 1 then
        break
      end
      add(account, key, group.first + 3 * n - 3)
    end
    stored = n
  end
  local verdicts = string.rep(DONE, stored)
  return stored == group.count and verdicts or verdicts .. string.rep(UNPAID, left_of(group) - stored)
end

local add_replays
if refers then
--@include lifecycle/create/replay
end

-- Why the holder of an API key may not store a group; nil: it may. A repeat of one that is stored,
-- because its reply was lost, is not judged or counted again.
local function refused(group, account)
  local holder, rate = group.holder, account.rate
  if group.is_stored then
    group.standing = rate and standing(account.paid_until, rate, 0)
    return nil
  elseif not (holder.active and account.plan) then
    return V.UNKNOWN
  elseif account.suspended then
    return V.SUSPENDED
  elseif rate then
    account.paid_until, group.standing = count(account.paid_until, rate)
    account.is_counted = true
    if group.standing[4] > 0 then
      return V.LIMITED
    end
  end
  holder.is_used = true
end

local place_onto, write_onto
if meets then
--@include lifecycle/create/on_existing
end

-- The verdicts on a group's schedules, whether one of them is paid for, and whether one means a
-- schedule that waits; or nil, and the reply that refuses the group.
local function place(group)
  if group.onto then
    return place_onto(group)
  elseif group.replays then
    local verdicts = add_replays(group)
    return verdicts, string.find(verdicts, DONE, 1, true)
  end
  local refusal = is_too_much(group.account, group) and V.NO_ROOM
    or group.refers and has_too_many_lanes(group) and V.TOO_MANY_LANES
  if refusal and is_later(group) then
    return string.rep(string.char(refusal), left_of(group)), false
  elseif refusal then
    return nil, string.char(refusal)
  end
  local verdicts = add_first(group)
  return verdicts, string.find(verdicts, DONE, 1, true)
end

-- Takes up a group's schedules if that is allowed; returns its reply.
local function take_up(group)
  local account = group.account
  if account.left == -1 then
    return string.char(V.UNKNOWN)
  end
  local why = group.holder and refused(group, account)
  if why then
    return string.char(why)
  end
  local before = asked_before(group)
  if before then
    return before
  end
  -- The note takes its room before the schedules do, and gives it back if it costs no credit.
  local note_bytes = adds_note(group) and note_weight(note_size(group)) or 0
  account.weight = account.weight + note_bytes
  local verdicts, paid, met = place(group)
  if verdicts and paid and note_bytes > 0 then
    note_expiring(account.hours, note_bytes, now_ms + once_ttl_ms)
  else
    account.weight = account.weight - note_bytes
  end
  if not verdicts then
    return paid
  elseif group.once and (paid or met or not opens_note(group)) then
    note_answer(group, verdicts, paid and once_ttl_ms or UNPAID_KEPT_MS)
  end
  return DONE .. verdicts
end

for _, group in ipairs(groups) do
  group.reply = group.account.sound and take_up(group)
end

local function sum_up(account)
  local taken = #account.new / 2
  if taken > 0 or next(account.hours) or account.moved and next(account.moved) then
    account.sums = {'credits', whole(account.left), 'spent', whole(plus(account.spent, taken)),
      'bytes', whole(plus(account.bytes, account.weight))}
    account.movement = taken > 0 and moved_credits(account.base, 'spent', taken)
    if account.referred then
      redis.call('ZCARD', account.base .. K.REFERENCES)
    end
    account.parts = refers and parts_of(account)
    if account.originals then
      redis.call('ZCARD', account.base .. K.FAILED)
      if #account.named > 0 then
        redis.call('ZCARD', account.base .. K.FAILED_REFERENCES)
      end
    end
    account.expiring = next(account.hours) and read_expiring(account.base, account.hours)
  end
end

for _, account in pairs(accounts) do
  account.sound = account.sound and pcall(sum_up, account)
end

-- Writing comes last, and cannot fail. Only the first write of each account checks its key itself.
check_heads(prefix)

local function store(account)
  local base, new = account.base, account.new
  if account.parts then
    for _, part in ipairs(account.parts) do
      leave(part.queue, part.gone)
    end
    for _, part in ipairs(account.parts) do
      wait(part.queue, part.due, part.earliest)
    end
  else
    wait(account.queue, account.waiting, account.earliest)
  end
  for n = 1, #new, 2 do
    redis.call('HSET', new[n], 'r', new[n + 1])
  end
  if account.met then
    write_onto(account)
  end
  redis.call('HSET', base .. K.ACCOUNT, unpack(account.sums))
  if account.over then
    settle(base, account.over)
  end
  if account.movement then
    write(account.movement, ttl_ms)
  end
  if account.referred then
    each_thousand('ZADD', base .. K.REFERENCES, account.referred)
  end
  if account.expiring then
    write(account.expiring)
  end
  if not account.originals then
    return
  end
  for key, made in pairs(account.originals) do
    redis.call('HSET', key, 'a', made)
  end
  for _, key in ipairs(account.earlier) do
    redis.call('PEXPIREAT', key, whole(kept_until_ms))
  end
  each_thousand('ZREM', base .. K.FAILED, account.letters)
  each_thousand('ZREM', base .. K.FAILED_REFERENCES, account.named)
end

for _, account in pairs(accounts) do
  if account.sound and account.sums then
    account.sound = pcall(store, account)
  end
  if account.sound then
    write_notes(account)
    if account.noted_until then
      redis.call('SET', account.base .. K.NOTED, whole(account.noted_until), 'PX', UNPAID_KEPT_MS)
    end
  end
  if account.sound and account.is_counted then
    write_paid_until(account.base, account.paid_until)
  end
end
for _, holder in pairs(holders) do
  if holder.is_used and holder.stale then
    redis.call('HSET', holder.key, 'used', now_ms)
  end
end

local replies = {}
for n, group in ipairs(groups) do
  local reply, standing = group.reply, group.standing
  if not group.account.sound then
    replies[n] = string.char(V.DAMAGED)
  else
    replies[n] = standing and {reply, unpack(standing)} or reply
  end
end
return {now_us, replies}
