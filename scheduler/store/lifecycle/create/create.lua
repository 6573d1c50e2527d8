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
-- ARGV[…]  for each group: account ('': the API key's holder), the SHA-256 of an API key whose
--          holder pays, if the key is active and its account's rate allows one more request ('':
--          none), once-key ('': none), its note (a digest of the request, 16 bytes, the first id,
--          16 bytes, then the caller's own), '' or, of a part, what `part.inc.lua` says, kind, how
--          many schedules, and for each of these a row, as `put.inc.lua` has it
--          kind `plain`: columns, as `plain.inc.lua` has them; `new`: named rows
--          kind `alone`: plain rows of an API key without once-key or part, each a request by
--          itself, which is judged and counted as in a group of its own
--          kind `replay`, or `replay-again` for also those that were replayed before: named rows,
--          each followed by the ended schedule as a member of `failed`
--          kind `upsert`: named rows, each followed by its way, as `on_existing.inc.lua` says
-- Returns  {now (us), for each group its verdict in a byte and what follows it}: DONE, and a
--          verdict in a byte for each schedule: DONE (now or before), UNPAID, of replays also
--          NO_ROOM, TOO_MANY_LANES, UNKNOWN, REPLAYED, DAMAGED, or what `on_existing.inc.lua`
--          answers; REPEATED, and the kept verdicts, a 0 and the note; UNKNOWN: no such account;
--          KEY_REUSED; NO_ROOM: together over the quota, TOO_MANY_LANES, none is stored; CHANGED
--          and LIMITED of `on_existing.inc.lua`: nothing was done; DAMAGED: a key of the account
--          is damaged, nothing of it was changed. By an API key: UNKNOWN also if it is not active,
--          SUSPENDED, LIMITED (beyond the rate). If the plan has a rate, an array: the verdict,
--          limit, remaining, until full (s), until allowed (s). To a group of kind `alone`: for each
--          row one of these verdicts; in an array of such replies if the plan has a rate
--@include shared/now
--@include shared/rate
--@include lifecycle/row/place
--@include shared/ledger
--@include lifecycle/row/weight
--@include lifecycle/row/put
--@include lifecycle/create/part
--@include lifecycle/create/once
--@include lifecycle/create/plain
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
local WIDTHS = {plain = 1, alone = 3, new = 6, replay = 7, ['replay-again'] = 7, upsert = 7} -- of a row

-- Reading comes first; an account for which it raises is damaged.
local function account_of(name)
  local account = accounts[name]
  if not account then
    account = payer_of(prefix, name)
    account.notes, account.fills, account.filled = {}, {}, {}
    account.sound = pcall(read_payer, account, quotas)
    account.rate = rates[account.plan]
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

local i, replays, meets = first, false, false -- whether some are replays, or mean others
while i <= #ARGV do
  local holder = ARGV[i + 1] ~= '' and holder_of(ARGV[i + 1])
  local account, kind = holder and holder.account or account_of(ARGV[i]), ARGV[i + 5]
  local group = {account = account, holder = holder, keep = ARGV[i + 3],
    part = part_of(ARGV[i + 4]), is_plain = kind == 'plain', is_upsert = kind == 'upsert',
    is_alone = kind == 'alone',
    is_again = kind == 'replay-again', is_replay = kind == 'replay' or kind == 'replay-again',
    count = tonumber(ARGV[i + 6]), width = WIDTHS[kind], first = i + 7, keys = #keys}
  if kind == 'upsert' then
    account.met, account.placed, meets = account.met or {}, account.placed or {}, true
  end
  replays = replays or group.is_replay
  if ARGV[i + 2] ~= '' then
    group.once = account.base .. K.ONCE .. ARGV[i + 2]
    local sound, known = pcall(read_note, group)
    account.sound, group.known = account.sound and sound, known
  end
  if group.is_plain then
    read_columns(group, keys)
  else
    for n = 1, group.count do
      keys[group.keys + n] = account.base .. ARGV[group.first + group.width * (n - 1)]
    end
  end
  groups[#groups + 1] = group
  i = group.first + group.width * group.count
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

-- Whether a group of new ones would take its account over the quota.
local function is_too_much(account, group)
  if account.quota == math.huge then
    return false
  end
  local bytes, left, weigh = 0, account.left, group.is_plain and weight_at or of_names().weight
  for n = 1, group.count do
    -- Those that are stored already or cannot be paid for weigh nothing more.
    if left > 0 and not there[keys[group.keys + n]] then
      bytes, left = bytes + weigh(group.first + group.width * (n - 1)), left - 1
    end
  end
  for _, weight in ipairs(later_of(group, 'weights')) do
    if left > 0 then
      bytes, left = bytes + weight, left - 1
    end
  end
  return not has_room(account, bytes)
end

-- Whether a group of new ones would be in too many lanes, and nothing of it is stored then. Where
-- that cannot be read, the account is damaged.
local function has_too_many_lanes(account, group)
  if group.is_plain and not group.part then
    return false
  end
  local lanes, beyond = {unpack(later_of(group, 'lanes'))}, false
  for n = 1, group.is_plain and 0 or group.count do
    local lane = ARGV[group.first + 6 * n - 3]
    if lane ~= '' and not there[keys[group.keys + n]] then
      lanes[#lanes + 1] = lane
    end
  end
  for _, lane in ipairs(lanes) do
    account.sound, beyond = pcall(of_names().is_lane_beyond, account, lane)
    if not account.sound or beyond then
      account.lanes = nil -- the next group begins anew
      return account.sound
    end
  end
  return false
end

-- Takes up the schedule of a row; one with a reference may be meant by a later row of the call.
local function add(account, key, row)
  local place = of_names().take(account, key, row)
  if account.met and ARGV[row + 4] ~= '' then
    local met = account.met[ARGV[row + 4]] or {}
    met[#met + 1] = {schedule = ARGV[row], key = key, place = place, due = ARGV[row + 1],
      size = #ARGV[row + 2], reference = ARGV[row + 4], weighs = tonumber(ARGV[row + 5])}
    account.met[ARGV[row + 4]] = met
  end
end

-- Takes up a group's new ones, as far as the credits reach. Returns how many of it are stored then.
local function take_named(group)
  local account = group.account
  for n = 1, group.count do
    local key = keys[group.keys + n]
    if not there[key] then
      if account.left < 1 then
        return n - 1
      end
      add(account, key, group.first + group.width * (n - 1))
    end
  end
  return group.count
end

-- The verdicts on a group of new ones.
local function add_first(group)
  local stored = group.is_plain and take_columns(group, keys, there) or take_named(group)
  local verdicts = string.rep(DONE, stored)
  return stored == group.count and verdicts
    or verdicts .. string.rep(UNPAID, left_of(group) - stored)
end

local add_replays
if replays then
--@include lifecycle/create/replay
end

-- Why the holder of an API key may not make a request (nil: it may), and how the rate stands. A
-- repeat of one that is stored, because its reply was lost, is not judged or counted again.
local function refused(holder, account, is_stored)
  local rate, stands = account.rate, nil
  if is_stored then
    return nil, rate and standing(account.paid_until, rate, 0)
  elseif not (holder.active and account.plan) then
    return V.UNKNOWN
  elseif account.suspended then
    return V.SUSPENDED
  elseif rate then
    account.paid_until, stands = count(account.paid_until, rate)
    account.is_counted = true
    if stands[4] > 0 then
      return V.LIMITED, stands
    end
  end
  holder.is_used = true
  return nil, stands
end

-- The replies to a group of kind `alone`, whose account exists.
local function take_alone(group)
  local account, replies = group.account, {}
  for n = 1, group.count do
    local key, row = keys[group.keys + n], group.first + 3 * (n - 1)
    local why, stands = refused(group.holder, account, there[key])
    if not (why or there[key]) then
      why = account.left < 1 and V.UNPAID or not has_room(account, plain_weight(row)) and V.NO_ROOM
        or nil
      if not why then
        take_plain(account, key, row)
      end
    end
    local verdict = why and string.char(why) or DONE
    replies[n] = stands and {verdict, unpack(stands)} or verdict
  end
  return account.rate and replies or table.concat(replies)
end

local place_onto
if meets then
--@include lifecycle/create/on_existing
end

-- The verdicts on a group's schedules, whether one of them is paid for, and whether one means a
-- schedule that waits; or nil, and the reply that refuses the group.
local function place(group)
  if group.is_upsert then
    return place_onto(group)
  elseif group.is_replay then
    local verdicts = add_replays(group)
    return verdicts, string.find(verdicts, DONE, 1, true)
  end
  local account = group.account
  local why = is_too_much(account, group) and V.NO_ROOM
    or has_too_many_lanes(account, group) and V.TOO_MANY_LANES
  if why and is_later(group) then
    return string.rep(string.char(why), left_of(group)), false
  elseif why then
    return nil, string.char(why)
  end
  local verdicts = add_first(group)
  return verdicts, string.find(verdicts, DONE, 1, true)
end

-- A verdict on all of a group.
local function for_each(group, verdict)
  return string.rep(string.char(verdict), group.is_alone and group.count or 1)
end

-- Takes up a group's schedules if that is allowed; returns its reply.
local function take_up(group)
  local account = group.account
  if not account.plan then
    return for_each(group, V.UNKNOWN)
  elseif group.is_alone then
    return take_alone(group)
  end
  local why
  if group.holder then
    why, group.standing = refused(group.holder, account, group.is_stored)
  end
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

local function check(account)
  sum_up(account)
  if account.originals then
    redis.call('ZCARD', account.base .. K.FAILED)
    if #account.named > 0 then
      redis.call('ZCARD', account.base .. K.FAILED_REFERENCES)
    end
  end
end

for _, account in pairs(accounts) do
  account.sound = account.sound and pcall(check, account)
end

-- Writing comes last, and cannot fail. Only the first write of each account checks its key itself.
check_heads(prefix)

local function store(account)
  put(account, ttl_ms)
  for name, answer in pairs(account.placed or {}) do
    redis.call('SET', name, answer, 'PX', UNPAID_KEPT_MS)
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
  each_thousand('ZREM', account.base .. K.FAILED, account.letters)
  each_thousand('ZREM', account.base .. K.FAILED_REFERENCES, account.named)
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
    replies[n] = for_each(group, V.DAMAGED)
  else
    replies[n] = standing and {reply, unpack(standing)} or reply
  end
end
return {now_us, replies}
