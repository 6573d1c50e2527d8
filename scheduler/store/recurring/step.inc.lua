-- Steps recurring schedules (rules), each from the version that the caller read: writes what
-- changes of the rule, makes its next occurrence or changes the one that waits, and logs what was
-- missed, all of that or nothing. Safe to repeat: the version has moved on then; with the same
-- operation, a repeat within a minute is answered as the first was.
-- KEYS[1]  the shard's prefix
-- ARGV     how long a day's rollup and the log are kept (ms), most log entries of an account, how
--          long a once-key is kept (ms), most rules of an account, a list of plans with a quota:
--          plan, bytes; a list begins with its length
-- ARGV[…]  for each rule: account, rule, its version ('': there is no such rule yet), kind: '', or
--          `removed`, or `put-off`: it cannot be read; operation ('': none); when to look after its
--          occurrence (ms; '': not), by how much the rule's own bytes grow, and lists: fields and
--          values; the occurrence: a named row, as `put.inc.lua` has it, and if it is there already,
--          of the request before: SHA-1, lane, reference ('': none), and what these weigh (bytes);
--          names: the one before, the new one ('': none), whether it `enters` the account's rules
--          or `leaves` them; the log's chunk of what was missed, and the index streams' names and
--          digests; of a new rule the once-key ('': none) and its value, which weighs in the quota
-- Returns  {now (us), for each rule its verdict in a byte}: DONE; CHANGED: it has another version,
--          or its occurrence another request; UNPAID, NO_ROOM, TOO_MANY_LANES; HELD: its occurrence
--          was attempted or a worker has it; NAME_TAKEN, TOO_MANY; UNKNOWN: no such account or
--          rule; DAMAGED; REPEATED, followed by the once-key's value behind the digest; KEY_REUSED
--@include shared/now
--@include shared/operation
--@include lifecycle/row/place
--@include shared/ledger
--@include log/append
--@include lifecycle/row/weight
--@include lifecycle/row/put
local prefix, ttl_ms, most = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local once_ttl_ms, most_rules = ARGV[3], tonumber(ARGV[4])
local MOST_DELETED = 1000

-- The list whose length stands at `i` of the arguments, and where what follows it begins.
local function list(i)
  local count = tonumber(ARGV[i])
  return {unpack(ARGV, i + 1, i + count)}, i + 1 + count
end

local quotas, plans, i = {}, list(5)
for n = 1, #plans, 2 do
  quotas[plans[n]] = tonumber(plans[n + 1])
end

-- A verdict on a rule that is not stored yet, because of what is; nil: it can be.
local function judge_new(one)
  local key, value = one.once[1], one.once[2]
  local known = key and redis.call('GET', one.base .. K.ONCE .. key)
  if known then
    if #known < 18 then
      error('DAMAGED', 0)
    elseif string.sub(known, 1, 16) ~= string.sub(value, 1, 16) then
      return V.KEY_REUSED
    end
    one.known = string.sub(known, 17)
    return V.REPEATED
  elseif redis.call('ZCARD', one.base .. K.RULES) >= most_rules then
    return V.TOO_MANY
  end
end

-- The same of the occurrence: of a new one, or of one that gets another request. Takes it up.
local function judge_occurrence(one, account)
  local row, request = one.row, ARGV[one.row + 2]
  local schedule, key = ARGV[row], one.base .. ARGV[row]
  if one.row_size == 6 then
    if redis.call('HEXISTS', key, 'r') == 1 then
      return V.CHANGED
    end
    local why = of_names().refusal(account, row)
    if not why then
      of_names().take(account, key, row)
    end
    return why
  end
  local stored = redis.call('HMGET', key, 'r', 'o', 'n')
  if not stored[1] or stored[2] then
    return V.CHANGED
  elseif stored[3] or redis.call('ZSCORE', one.base .. K.HELD, schedule) then
    return V.HELD
  elseif redis.sha1hex(stored[1]) ~= ARGV[row + 6] then
    return V.CHANGED
  end
  local before = {schedule = schedule, key = key, size = #stored[1], lane = ARGV[row + 7],
    reference = ARGV[row + 8], weighs = tonumber(ARGV[row + 9])}
  local why = of_names().unfit(account, before, row, request)
  if not why then
    of_names().exchange(account, before, row, request)
  end
  return why
end

-- The numbers of states in `rule_states`, where active and deleted rules are not.
local STATES = {paused = 1, blocked = 2, ended = 3}

-- Notes which state the rule is to have, if that is written.
local function judge_state(one)
  for n = 1, #one.fields, 2 do
    if one.fields[n] == 'p' then
      one.state = string.match(one.fields[n + 1], '^%l+')
      redis.call('ZCARD', one.base .. K.RULE_STATES)
    end
  end
end

-- Reads and checks all that `record` writes. Returns a verdict if that is not to be.
local function judge(one)
  local account = payer_of(prefix, one.account)
  one.base, one.payer = account.base, account
  if one.row_size > 0 or one.more ~= 0 then
    read_payer(account, quotas)
  else
    account.plan = redis.call('HGET', one.base .. K.ACCOUNT, 'plan')
  end
  one.rule_key = one.base .. K.RULE .. one.rule
  local version = redis.call('HGET', one.rule_key, 'v')
  if not account.plan then
    return V.UNKNOWN
  elseif one.operation ~= '' and was_done(one.base, one.operation) then
    return V.DONE
  elseif one.version == '' then
    local verdict = judge_new(one)
    if verdict then
      return verdict
    end
  end
  if (version or '') ~= one.version then
    return version and V.CHANGED or V.UNKNOWN
  end
  one.next_version = whole(plus(version or 0, 1))
  judge_state(one)
  if #one.names > 0 then
    local holder = redis.call('HGET', one.base .. K.RULE_NAMES, one.names[2])
    redis.call('ZCARD', one.base .. K.RULES)
    redis.call('LLEN', one.base .. K.RULES_DELETED)
    if one.names[2] ~= '' and holder and holder ~= one.rule then
      return V.NAME_TAKEN
    end
  end
  account.weight = one.more
  if one.version == '' and one.once[1] then
    local weight = note_weight(#one.once[2])
    note_expiring(account.hours, weight, now_ms + once_ttl_ms)
    account.weight = account.weight + weight
  end
  local verdict = one.row_size > 0 and judge_occurrence(one, account)
    or is_over(account, account.weight) and V.NO_ROOM
  if verdict then
    return verdict
  end
  if one.row_size > 0 then
    check_queue(account.queue) -- a damaged one must fail before the first write
  end
  sum_up(account)
  if #one.entry > 0 then
    one.log = read_log(one.base, entries_in(one.entry[1]), one.entry[1])
  end
end

-- So that a repeat of the deletion is answered alike: for an hour, or until MOST_DELETED others were
-- deleted, but for a minute at least, which the rate of requests bounds.
local function note_deleted(base, rule)
  local deleted = base .. K.RULES_DELETED
  note_done(base, rule)
  redis.call('LPUSH', deleted, rule)
  redis.call('LTRIM', deleted, 0, MOST_DELETED - 1)
  redis.call('PEXPIRE', deleted, 3600000)
end

local function record_names(one)
  local before, after, listed = one.names[1], one.names[2], one.names[3]
  if before ~= '' and before ~= after then
    redis.call('HDEL', one.base .. K.RULE_NAMES, before)
  end
  if after ~= '' then
    redis.call('HSET', one.base .. K.RULE_NAMES, after, one.rule)
  end
  if listed == 'enters' then
    redis.call('ZADD', one.base .. K.RULES, 0, one.rule)
  elseif listed == 'leaves' then
    redis.call('ZREM', one.base .. K.RULES, one.rule)
    note_deleted(one.base, one.rule)
  end
end

-- Writing cannot fail.
local function record(one)
  if one.payer.sums then
    put(one.payer, ttl_ms)
  end
  if #one.names > 0 then
    record_names(one)
  end
  if one.log then
    local chunk, places = one.entry[1], {unpack(one.entry, 2)}
    append(one.base, one.log, chunk, entries_in(chunk), places, ttl_ms, most)
  end
  if STATES[one.state] then
    redis.call('ZADD', one.base .. K.RULE_STATES, STATES[one.state], one.rule)
  elseif one.state and one.version ~= '' then
    redis.call('ZREM', one.base .. K.RULE_STATES, one.rule)
  end
  if one.kind == 'removed' then
    redis.call('UNLINK', one.rule_key)
  elseif #one.fields > 0 then
    redis.call('HSET', one.rule_key, 'v', one.next_version, unpack(one.fields))
  end
  if one.operation ~= '' then
    note_done(one.base, one.operation)
  end
  if one.version == '' and one.once[1] then
    redis.call('SET', one.base .. K.ONCE .. one.once[1], one.once[2], 'PXAT',
      whole(now_ms + once_ttl_ms))
  end
end

local function look_after(one)
  local member = one.account .. ':' .. one.rule
  if one.due == '' then
    redis.call('ZREM', prefix .. K.RULES_DUE, member)
  else
    redis.call('ZADD', prefix .. K.RULES_DUE, one.due, member)
  end
end

-- Returns the verdict. What cannot be read is damaged, and then nothing is written of it; it is
-- looked after a minute later, so that it is not in the way of others.
local function step(one)
  local sound, verdict = pcall(judge, one)
  if not sound or one.kind == 'put-off' then
    redis.call('ZADD', prefix .. K.RULES_DUE, 'XX', now_ms + 60000,
      one.account .. ':' .. one.rule)
    return V.DAMAGED
  elseif verdict == V.UNKNOWN and one.version ~= '' then
    one.due = ''
    look_after(one)
  elseif not verdict then
    record(one)
    look_after(one)
  end
  return verdict or V.DONE
end

check_heads(prefix)
redis.call('ZCARD', prefix .. K.RULES_DUE)
local verdicts = {}
while i <= #ARGV do
  local one = {account = ARGV[i], rule = ARGV[i + 1], version = ARGV[i + 2], kind = ARGV[i + 3],
    operation = ARGV[i + 4], due = ARGV[i + 5], more = tonumber(ARGV[i + 6])}
  one.fields, i = list(i + 7)
  one.row, one.row_size = i + 1, tonumber(ARGV[i])
  i = one.row + one.row_size
  one.names, i = list(i)
  one.entry, i = list(i)
  one.once, i = list(i)
  verdicts[#verdicts + 1] = string.char(step(one)) .. (one.known or '')
end
return {now_us, verdicts}
