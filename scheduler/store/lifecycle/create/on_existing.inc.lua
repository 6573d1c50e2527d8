-- Groups with rows that mean the schedule which waits with their reference, if there is one: a row
-- keeps it as it is, or replaces its request. Needs create.lua's groups and `add`.
-- A row ends with its way: '' another is stored; 'k' that one is kept; 'r' it gets this request;
-- 'r=' and its id ('': none): it gets this request, which was made for it; 'r<' and how an id
-- begins: it gets this request if its id does not come before that. Otherwise the request has to be
-- made for it.
-- Answers with EACH and, for each row in 43 bytes, DONE, EXISTING, UNPAID, NO_ROOM, SEVERAL,
-- TOO_MANY_LANES or DAMAGED, the schedule, and when it is due (ms; of SEVERAL: how many
-- wait); or with CHANGED and, for each row, the schedule for which its request has to be made
-- (spaces: for none).

--@include shared/moment
--@include lifecycle/row/heads
-- Two that wait are too many already, and a batch may name a reference in each of its rows.
local LOOKED_AT_FIRST, LOOKED_AT_MOST = 4, 100
-- An answer that costs no credit is noted for a minute, for a repeat after a lost reply or with the
-- same Idempotency-Key. A thousand rows have 43 KB, so those that an account adds in a minute come
-- to a part of its quota at most, and twice that may be there.
local PART_OF_QUOTA = 32

-- Its answer to a row is as long as any other's: a verdict, a schedule, and when that is due (ms).
local function placed(verdict, schedule, due)
  return string.char(verdict) .. schedule .. string.format('%016.0f', due)
end
local NO_SCHEDULE = string.rep(' ', 26)

-- Whether it is the next occurrence of a recurring schedule: no create means that one.
local function waits_for_slot(account, key)
  if account.has_rules == nil then
    account.has_rules = redis.call('EXISTS', account.base .. K.RULES) == 1
  end
  local stored = account.has_rules and redis.pcall('HGET', key, 'r')
  return type(stored) == 'string' and has_slot(stored)
end

-- Those that wait with a reference, stored ones and those that this call has taken up; `more` is
-- how many are not looked at. What a worker holds does not wait. It is older than one that waits.
local function waiting_with(account, reference)
  local found = account.met[reference] or {}
  if found.more then
    return found
  end
  local name, first, last = account.base .. K.REFERENCES, '[' .. reference .. '\0',
    '(' .. reference .. '\1'
  local looked_at, most = 0, LOOKED_AT_FIRST
  repeat
    local schedules = redis.call('ZRANGE', name, last, first, 'BYLEX', 'REV', 'LIMIT', looked_at,
      most - looked_at)
    for i, member in ipairs(schedules) do
      schedules[i] = string.sub(member, #reference + 2)
    end
    local held = #schedules > 0 and redis.call('ZMSCORE', account.queue.held, unpack(schedules))
    for i, schedule in ipairs(schedules) do
      local key = account.base .. schedule
      if not held[i] and not waits_for_slot(account, key) then
        found[#found + 1] = {schedule = schedule, key = key}
      end
    end
    looked_at = looked_at + #schedules
    local over = looked_at < most or #found > 1 or most == LOOKED_AT_MOST
    most = LOOKED_AT_MOST
  until over
  found.more = 0
  if looked_at >= LOOKED_AT_FIRST then
    found.more = redis.call('ZLEXCOUNT', name, first, last) - looked_at
  end
  account.met[reference] = found
  return found
end

-- When the one that waits is due.
local function due_of(account, one)
  one.due = one.due or redis.call('ZSCORE', account.queue.waiting, one.schedule)
    or redis.call('ZSCORE', account.base .. K.LANED, one.schedule) or 0
  return one.due
end

-- Reads the stored request of a waiting schedule. Returns false if there is none.
local function read_one(one)
  local stored = redis.pcall('HMGET', one.key, 'r', 'n')
  if not stored[1] then
    return false
  end
  one.lane, one.reference, one.weighs, one.recurring = heads_of(stored[1])
  one.size, one.tried = #stored[1], stored[2]
  return true
end

-- Gives the one that waits another request; an occurrence stays one. Returns the row's answer.
local function put_onto(account, one, row)
  local at, request = ARGV[row + 1], ARGV[row + 2]
  if not one.size and not read_one(one) then
    return placed(V.DAMAGED, one.schedule, 0)
  end
  request = with_recurring(request, one.recurring or '')
  local why = of_names().unfit(account, one, row, request)
  if why then
    return placed(why, one.schedule, 0)
  end
  if one.tried then
    -- Its last byte counts the retries: this request has had none.
    one.attempt = string.sub(one.tried, 1, 6) .. moment(at) .. string.sub(one.tried, 13, -2) .. '\0'
  end
  of_names().exchange(account, one, row, request)
  account.replaces = true
  return placed(V.EXISTING, one.schedule, at)
end

local function place_row(account, row, key)
  local schedule, at, way = ARGV[row], ARGV[row + 1], ARGV[row + 6]
  if there[key] then
    return placed(V.DONE, schedule, at)
  end
  local found = way ~= '' and waiting_with(account, ARGV[row + 4]) or {}
  local one = found[1]
  if found.more and #found + found.more > 1 then
    return placed(V.SEVERAL, schedule, #found + found.more)
  elseif one and way == 'k' then
    return placed(V.EXISTING, one.schedule, due_of(account, one))
  elseif one then
    return put_onto(account, one, row)
  end
  local why = of_names().refusal(account, row)
  if why then
    return placed(why, schedule, 0)
  end
  add(account, key, row)
  return placed(V.DONE, schedule, at)
end

-- Until when (us) the account has used up its part for such answers, if it leaves this one; and how
-- long it is to wait first (s; 0: not). One that has none may always leave one.
-- `more`: what later parts of its group leave (bytes).
local function noted_until(account, bytes, more)
  if account.quota == math.huge then
    return nil, 0
  end
  local before = account.noted_until
    or number(redis.call('GET', account.base .. K.NOTED))
  local minute_us = UNPAID_KEPT_MS * 1000
  before = math.min(math.max(before, now_us), now_us + minute_us)
  local us_a_byte = minute_us / (account.quota / PART_OF_QUOTA)
  local after = math.ceil(before + bytes * us_a_byte)
  local wait_us = before > now_us and after + more * us_a_byte - now_us - minute_us or 0
  return math.min(after, now_us + minute_us), math.max(0, math.ceil(wait_us / 1000000))
end

-- Whether a row's request was made for the one that waits, or for none.
local function is_made_for(one, way)
  if string.sub(way, 2, 2) == '=' then
    return (one and one.schedule or '') == string.sub(way, 3)
  end
  local created = one and string.sub(one.schedule, 1, 10)
  return string.sub(way, 2, 2) ~= '<' or not one or created >= string.sub(way, 3)
end

-- Returns what `place` in create.lua does. It refuses with CHANGED and the ones that requests have to
-- be made for, or with LIMITED and how long to wait (s).
local function place_all(group)
  local account, ones, fit, answers, replaces = group.account, {}, true, {}, false
  -- A call whose reply was lost has noted its answer under its first id, or its once-key.
  local name = account.base .. K.OPERATION .. ARGV[group.first]
  local before = not group.once and redis.call('GET', name)
  if before then
    return before, true, true
  end
  for n = 1, group.count do
    local row = group.first + 7 * n - 7
    local way, one = ARGV[row + 6], nil
    if #way > 1 and not there[keys[group.keys + n]] then
      local found = waiting_with(account, ARGV[row + 4])
      one = #found + found.more == 1 and found[1] or nil
      fit = fit and (#found + found.more > 1 or is_made_for(one, way))
    end
    ones[n], replaces = one and one.schedule or NO_SCHEDULE, replaces or string.byte(way) == 114
  end
  if not fit then
    return nil, string.char(V.CHANGED) .. table.concat(ones)
  end
  local noted, wait_s = nil, 0
  local notes = not group.once or opens_note(group)
  if notes and (replaces or group.once) then
    local more = group.once and 0 or (left_of(group) - group.count) * PLACED_BYTES
    noted, wait_s = noted_until(account, note_weight(note_size(group)), more)
  end
  if wait_s > 0 and not is_later(group) then
    return nil, string.char(V.LIMITED) .. wait_s
  end
  local met, paid = false, false
  account.replaces = false
  for n = 1, group.count do
    answers[n] = place_row(account, group.first + 7 * n - 7, keys[group.keys + n])
    local verdict = string.byte(answers[n])
    paid, met = paid or verdict == V.DONE, met or verdict == V.EXISTING
  end
  local answer = string.char(V.EACH) .. table.concat(answers)
  if account.replaces and not group.once then
    account.placed[name] = answer
  end
  if noted and (group.once and met and not paid or account.replaces and not group.once) then
    account.noted_until = noted
  end
  return answer, paid, met
end

-- What cannot be read is damaged, and then nothing of the account is written.
place_onto = function(group)
  local sound, answers, paid, met = pcall(place_all, group)
  group.account.sound = sound
  if sound then
    return answers, paid, met
  end
  return nil, ''
end
