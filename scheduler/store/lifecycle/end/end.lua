#!lua flags=allow-oom
-- Ends schedules, or attempts that are made again: outcomes, a chunk of the log, indexes,
-- statistics and credits. They come in groups of one account and one kind. A group is recorded as a
-- whole or not at all: if one of its rows cannot be, the caller repeats it without that row. A row
-- names the score of its schedule in `waiting`, which the first call takes away: a repeat does
-- nothing. A worker names its lease (also an ended one, if no worker took it over), an owner the
-- moment when the schedule is due. An account with a damaged key is parked: claims pass it over
-- until the store can record again, or workers would fire its schedules after each lease.
-- KEYS[1]  the shard's prefix
-- ARGV     how long an ended schedule is kept (ms), how long log and statistics are (ms), most log
--          entries of an account, how long single seconds are kept (ms), how long a failed schedule
--          is (ms), how long of that as a dead letter (ms), most dead letters of an account
-- ARGV[8…] for each group: account, kind, number of rows, chunk of log entries, lists, parts by
--          kind, rows. A list begins with its length, and most are empty. They are: what the index
--          notes, and the digests of it; the members of `references` of schedules that end; of rows
--          of `fired` or `stopped` that say whether their end is reported: place, `1` (it is), `0`
--          (not), `a` (it is, if the account has a default) or `d` (as that says, to which other
--          rows leave it), and behind the letter the target's answer for the report; place 0 has
--          the quotas by plan, if there are answers, and place -n how long after its end that of
--          row n is reported (ms), if not at once; of rows of `cancelled` that stand for the slot
--          of a rule: schedule, rule; if the rows are in lanes, which all of them are then: lane,
--          number of rows, and until when it is to be calm (ms; '': not); and so on for the rows
--          that follow
--          kind `fired`, and `stopped` by the owner between two attempts, which ends it as
--          the last one did. More: number completed and failed, total response time (ms), bytes of
--          the packed requests of those completed and of those failed, a list (buckets of the
--          histograms, by letter and number, and the fires in each) and another (answers of the
--          targets of those that failed: the row, its kept part, '' to delete the answer to an
--          attempt before). Row: schedule, score, packed outcome; of `stopped` also the request's
--          SHA-1
--          kind `cancelled` by the owner before the first attempt, with the credit back. More:
--          bytes that are kept of the requests, bytes that this is less than before. Row: schedule,
--          score, packed outcome, the request's SHA-1, the kept part of the request
--          kind `retried`: to be tried again. Row: schedule, score, packed attempt, when the next
--          one is due (ms), attempts made so far, the kept part of the target's answer ('': none)
-- Returns  {now (us), a verdict for each row, a byte each}
--@include shared/now
--@include shared/moment
--@include lifecycle/row/place
--@include lifecycle/row/token
--@include shared/ledger
--@include log/append
--@include log/count
--@include lifecycle/row/failed
--@include lifecycle/row/weight
local prefix = KEYS[1]
local kept_ms, ttl_ms, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local seconds_ms, failed_kept_ms = ARGV[4], tonumber(ARGV[5])
local failed_ms, most_failed = tonumber(ARGV[6]), tonumber(ARGV[7])
-- Of rows whose ends are reported, and of rules; made when one is first met.
local read_callbacks, keep_called, call_back, read_rules, let_go
local WIDTHS = {fired = 3, stopped = 4, cancelled = 5, retried = 6}

--@include lifecycle/end/end_judge
-- What the members of `references` weigh that go.
local function weight_of_members(group)
  local bytes = 0
  for _, member in ipairs(group.members) do
    bytes = bytes + S.REFERENCE_BYTES + #member
  end
  return bytes
end

-- Adds the dead letters of a group to its plan. Returns what their references go on weighing.
local function read_letters(plan, group)
  local at, letters, referred, members, bytes = plan.log.at, {}, {}, {}, 0
  for _, member in ipairs(group.members or {}) do
    members[string.sub(member, -26)] = member
  end
  for i, outcome in ipairs(group.outcomes) do
    if has_failed(outcome) then
      local n, letter = #letters, group.schedules[i]
      local member = members[letter]
      if member then
        letter = letter .. '\0' .. string.sub(member, 1, -28)
        bytes = bytes + letter_weight(letter)
        referred[#referred + 1], referred[#referred + 2] = 0, member
      end
      letters[n + 1], letters[n + 2] = at, letter
    end
  end
  plan.letters, plan.referred = letters, referred
  return bytes
end

local function read_executions(plan, group, hours)
  local base, at, said_bytes, kept_bytes = group.base, plan.log.at, 0, 0
  for i = 2, #group.said, 2 do
    said_bytes = said_bytes + answer_weight(#group.said[i])
  end
  if group.failed > 0 then -- the references of dead letters weigh as before, until they expire
    said_bytes = said_bytes + read_letters(plan, group)
  end
  local more = said_bytes - plan.members_bytes
  local default = redis.call('HGET', base .. K.CALLBACK, 'on')
  if default or group.wishes then
    if not read_callbacks then
--@include lifecycle/callback/call_back
    end
    group.called, kept_bytes = read_callbacks(group, default, more)
  end
  more = more + kept_bytes
  if more ~= 0 and redis.call('EXISTS', base .. K.ACCOUNT) == 1 then
    plan.bytes = added(base .. K.ACCOUNT, {'bytes'}, {more})
  end
  if group.queue.is_tried then
    plan.used = redis.call('HMGET', group.queue.tried, unpack(group.schedules))
  end
  if group.completed > 0 then
    note_expiring(hours, weight_of(group.completed_bytes, group.completed), now_ms + kept_ms)
  end
  if group.failed > 0 then
    note_expiring(hours, weight_of(group.failed_bytes + said_bytes, group.failed),
      now_ms + failed_kept_ms)
    plan.trimmed = read_failed(base, #plan.letters / 2, at, failed_ms, most_failed, kept_ms, hours)
    if #plan.referred > 0 or #plan.trimmed[3] > 0 then
      redis.call('ZCARD', base .. K.FAILED_REFERENCES)
    end
  end
  if group.called then
    keep_called(group, hours)
  end
  plan.rollups = read_rollups(base, at, {R.COMPLETED, group.completed, R.FAILED, group.failed,
    R.RESPONSE_TIME, group.response_ms}, group.spread)
end

-- Reads and checks everything that `record` writes, but for the schedules.
local function read(group)
  for _, run in ipairs(group.runs) do
    check_queue(run.queue)
  end
  local gains = group.completed and {group.completed, group.failed, group.response_ms}
  local plan, hours = {log = read_log(group.base, group.size, group.chunk, gains)}, {}
  if group.kind == 'retried' then
    return plan
  end
  plan.members_bytes = group.queue.lane and group.size * S.LANE_BYTES or 0
  if group.members then
    redis.call('ZCARD', group.base .. K.REFERENCES)
    plan.members_bytes = plan.members_bytes + weight_of_members(group)
  end
  if group.kind == 'cancelled' then
    group.less = group.less + plan.members_bytes
    local count, account = group.size, group.base .. K.ACCOUNT
    plan.bytes = added(account, {'credits', 'spent', 'bytes'}, {count, -count, -group.less})
    plan.movement = moved_credits(group.base, 'refunded', count)
    note_expiring(hours, weight_of(group.kept_bytes, count), now_ms + kept_ms)
    if group.occurrences then
      if not read_rules then
        -- Rules whose waiting occurrence is cancelled, in the step that does it: none waits then,
        -- and `rules_due` has them to be looked after. Flat: the rule, its next version, where it
        -- stands then. Damaged ones, and all if `rules_due` is damaged, stay as they are: `postdate
        -- check` finds them, and the schedule is cancelled.
        read_rules = function(group)
          local found = {}
          if type(redis.pcall('ZCARD', prefix .. K.RULES_DUE)) ~= 'number' then
            return found
          end
          for i = 1, #group.occurrences, 2 do
            local schedule, rule = group.occurrences[i], group.occurrences[i + 1]
            local stored = redis.pcall('HMGET', group.base .. K.RULE .. rule, 'n', 'v')
            local counted, version = pcall(plus, stored[2], 1)
            local stands, n = stored[1] or '', #found
            if string.sub(stands, 1, #schedule) == schedule and counted then
              found[n + 1], found[n + 2] = rule, whole(version)
              found[n + 3] = string.sub(stands, #schedule + 1)
            end
          end
          return found
        end

        let_go = function(group, rules)
          for i = 1, #rules, 3 do
            local rule, version, stands = rules[i], rules[i + 1], rules[i + 2]
            redis.call('HSET', group.base .. K.RULE .. rule, 'n', stands, 'v', version)
            redis.call('ZADD', prefix .. K.RULES_DUE, now_ms, group.account .. ':' .. rule)
          end
        end
      end
      plan.rules = read_rules(group)
    end
  else
    read_executions(plan, group, hours)
  end
  plan.expiring = read_expiring(group.base, hours)
  return plan
end

-- Writes each schedule's outcome. These first writes are their own check: where one fails it undoes
-- those before it, and returns its place.
local function end_fired(group, ended_at)
  local base, outcomes, called = group.base, group.outcomes, group.called or {}
  local completed_until, failed_until = whole(now_ms + kept_ms), whole(now_ms + failed_kept_ms)
  for i, schedule in ipairs(group.schedules) do
    local name, outcome = base .. schedule, outcomes[i]
    if type(redis.pcall('HSET', name, 'o', ended_at .. outcome)) ~= 'number' then
      for n = 1, i - 1 do
        redis.call('HDEL', base .. group.schedules[n], 'o', 'c', 'w')
        redis.call('PERSIST', base .. group.schedules[n])
      end
      return i
    end
    if called[i] then
      local delay_ms = group.wishes[-i]
      redis.call('HSET', name, 'c', 'p' .. (delay_ms and moment(now_ms + delay_ms) or ended_at))
      if called[i] ~= '' then
        redis.call('HSET', name, 'w', called[i])
      end
    else
      redis.call('PEXPIREAT', name, has_failed(outcome) and failed_until or completed_until)
    end
  end
  return nil
end

local function end_cancelled(group, ended_at)
  for i, schedule in ipairs(group.schedules) do
    local name, kept = group.base .. schedule, ARGV[group.first + 5 * i - 1]
    redis.call('HSET', name, 'r', kept, 'o', ended_at .. group.outcomes[i])
    redis.call('PEXPIRE', name, kept_ms)
  end
end

local function note_said(name, said)
  if said == '' then
    redis.call('HDEL', name, 's')
  else
    redis.call('HSET', name, 's', said)
  end
end

local function try_again(group, run, failed_at)
  local due, tried, earliest = {}, {}, math.huge
  for i, schedule in ipairs(run.schedules) do
    local row, name = group.first + 6 * (run.before + i - 1), group.base .. schedule
    local due_ms = tonumber(ARGV[row + 3])
    redis.call('HSET', name, 'n', failed_at .. moment(due_ms)
      .. group.outcomes[run.before + i])
    note_said(name, ARGV[row + 5])
    due[2 * i - 1], due[2 * i] = due_ms, schedule
    tried[2 * i - 1], tried[2 * i] = schedule, ARGV[row + 4]
    earliest = math.min(earliest, due_ms)
  end
  put_back(run.queue, run.schedules, due, tried, {}, earliest)
end

local function record_executions(plan, group)
  for i = 1, #group.said, 2 do
    note_said(group.base .. group.schedules[tonumber(group.said[i])], group.said[i + 1])
  end
  if plan.trimmed then
    note_failed(group.base, plan.letters, plan.referred, plan.trimmed, failed_ms)
  end
  if plan.used then
    for i, schedule in ipairs(group.schedules) do
      if plan.used[i] then -- the answer that a failed one got stays
        local gone = has_failed(group.outcomes[i]) and 'n' or 's'
        redis.call('HDEL', group.base .. schedule, 'n', gone)
      end
    end
  end
  count(plan.rollups, ttl_ms, seconds_ms)
  if group.called then
    call_back(group)
  end
end

-- Returns a verdict for each row, and whether all were recorded.
local function record(group)
  group.base = prefix .. group.account .. ':'
  group.runs = group.lanes and of_lanes().runs_of(prefix, group.account, group.lanes)
    or {{queue = queue_of(prefix, group.account)}}
  group.queue = group.runs[1].queue
  local found, all = judge(group)
  if not all then
    return found, false
  end
  if group.lanes then
    of_lanes().share_out(group.runs, group.schedules)
  else
    group.runs[1].schedules, group.runs[1].before = group.schedules, 0
  end
  local plan = read(group)
  local ended_at = moment(plan.log.at)
  if group.kind == 'retried' then
    for _, run in ipairs(group.runs) do
      try_again(group, run, ended_at)
    end
  elseif group.kind == 'cancelled' then
    end_cancelled(group, ended_at)
    if plan.rules then
      let_go(group, plan.rules)
    end
  else
    local damaged = end_fired(group, ended_at)
    if damaged then
      found[damaged] = V.DAMAGED
      return found, false
    end
    record_executions(plan, group)
  end
  append(group.base, plan.log, group.chunk, group.size, group.places, ttl_ms, most)
  if plan.bytes then
    write(plan.bytes)
  end
  if plan.movement then
    write(plan.movement, ttl_ms)
  end
  if group.kind ~= 'retried' then
    write(plan.expiring)
    for _, run in ipairs(group.runs) do
      take_out(run.queue, run.schedules)
    end
  end
  for _, run in ipairs(group.lanes and group.runs or {}) do
    of_lanes().calm(run.queue, run.calm_ms)
  end
  if group.members then
    each_thousand('ZREM', group.base .. K.REFERENCES, group.members)
  end
  return found, true
end

-- Adds a group's verdicts to all: where not every row can be recorded, none is.
local function settle(verdicts, group)
  local sound, found, all = pcall(record, group)
  if not sound then
    -- If `parked` itself is damaged, the schedules wait for the end of their leases only.
    redis.pcall('ZADD', prefix .. K.PARKED, now_ms, group.account)
    found, all = {}, false
  end
  if all then
    verdicts[#verdicts + 1] = string.rep(string.char(V.DONE), group.size)
    return
  end
  for i = 1, group.size do
    local verdict = found[i] or V.DAMAGED
    verdicts[#verdicts + 1] = string.char(verdict == V.DONE and V.AGAIN or verdict)
  end
end

-- The list whose length stands at `i` of the arguments, and where what follows it begins; nil for
-- an empty one.
local function list(i)
  local count = ARGV[i]
  if count == '0' then
    return nil, i + 1
  end
  local values = {}
  for k = i + 1, i + count do
    values[#values + 1] = ARGV[k]
  end
  return values, i + 1 + #values
end

check_heads(prefix)
local verdicts, i = {}, 8
while i <= #ARGV do
  local group = {account = ARGV[i], kind = ARGV[i + 1], size = tonumber(ARGV[i + 2]),
    chunk = ARGV[i + 3]}
  group.places, i = list(i + 4)
  group.members, i = list(i)
  group.wishes, i = list(i)
  group.occurrences, i = list(i)
  group.lanes, i = list(i)
  if group.kind == 'cancelled' then
    group.kept_bytes, group.less = ARGV[i], ARGV[i + 1]
    i = i + 2
  elseif group.kind ~= 'retried' then
    group.completed, group.failed = tonumber(ARGV[i]), tonumber(ARGV[i + 1])
    group.response_ms, group.completed_bytes = ARGV[i + 2], ARGV[i + 3]
    group.failed_bytes = ARGV[i + 4]
    group.spread, i = list(i + 5)
    group.said, i = list(i)
    group.said = group.said or {}
  end
  group.first = i
  settle(verdicts, group)
  i = i + WIDTHS[group.kind] * group.size
end
return {now_us, table.concat(verdicts)}
