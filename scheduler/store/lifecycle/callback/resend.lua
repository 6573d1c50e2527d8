#!lua
-- Sends callbacks of ended schedules again: each is pending anew, and its schedule is kept until it
-- has ended. They are free, so an account may have so many a second; those that come together are
-- due one after the other. Safe to repeat with the same operation for a minute.
-- KEYS[1]  the shard's prefix
-- ARGV     account, operation, for how long (us) the rate may be used up ahead, how many words name
--          quotas; for each plan with a quota: plan, bytes
-- ARGV[…]  for each: schedule, SHA-1 of the packed request that the caller read, the new one ('':
--          the same), `1` if that names where its end is reported, `a` if that is where the account
--          says, `0` if nowhere, the schedule as a member of `failed`
-- Returns  a verdict for each, and behind it its callback's state: DONE, UNKNOWN, NOT_ENDED, ENDED:
--          it was cancelled, PENDING, NO_CALLBACK_URL, CHANGED, NO_ROOM, DAMAGED (''), LIMITED: in
--          how many s it may be
--@include shared/now
--@include lifecycle/row/place
--@include shared/moment
--@include shared/operation
--@include lifecycle/row/failed
--@include lifecycle/row/weight
--@include lifecycle/callback/callbacks
--@include shared/rate
-- And the most that the rate is used up ahead.
local RESENDS_A_SECOND, MOST_AHEAD_US = 50, 20000000
local queue, operation, ahead_us = callbacks_of(KEYS[1], ARGV[1]), ARGV[2], tonumber(ARGV[3])
local base, first = queue.base, 5 + ARGV[4]
local account = redis.call('HMGET', base .. K.ACCOUNT, 'plan', 'bytes', 'settled')
local before = redis.call('GET', base .. K.OPERATION .. operation)
local has_default = redis.call('HEXISTS', base .. K.CALLBACK, 'on') == 1
local most_bytes = math.huge
for i = 5, first - 1, 2 do
  most_bytes = ARGV[i] == account[1] and tonumber(ARGV[i + 1]) or most_bytes
end

-- Why the callback of a row's schedule cannot be sent again; nil: it can.
local function judge(row, stored)
  local wish = ARGV[row + 3]
  if stored.err then
    return V.DAMAGED
  elseif not stored[1] or not account[1] then
    return V.UNKNOWN
  elseif not stored[2] then
    return V.NOT_ENDED
  elseif string.byte(stored[2], 8) == S.CANCELLED then
    return V.ENDED
  elseif stored[3] and string.sub(stored[3], 1, 1) == 'p' then
    return V.PENDING
  elseif wish == '0' or wish == 'a' and not has_default then
    return V.NO_CALLBACK_URL
  elseif redis.sha1hex(stored[1]) ~= ARGV[row + 1] then
    return V.CHANGED
  end
end

local answer, plan, came, hours, more = {}, {}, {}, {}, 0
check_callbacks(queue)
redis.call('ZCARD', queue.failed)
local paid_until = read_paid_until(base, K.RESENDS, MOST_AHEAD_US)
local bytes = account[1] and stored_bytes(base, account[2], account[3])
for row = first, #ARGV, 5 do
  local key, place = base .. ARGV[row], #answer + 1
  local stored = redis.pcall('HMGET', key, 'r', 'o', 'c')
  local verdict, said = before and string.byte(before, (place + 1) / 2) or judge(row, stored), ''
  if before then
    said = verdict == V.DONE and not stored.err and stored[3] or verdict == V.LIMITED and '1' or ''
  elseif not verdict then
    local after = paid_until + 1000000 / RESENDS_A_SECOND
    local wait_us, new = after - ahead_us - now_us, ARGV[row + 2]
    local gain = new ~= '' and #new - #stored[1] or 0
    if gain > 0 and bytes + more + gain > most_bytes then
      verdict = V.NO_ROOM
    elseif wait_us > 0.5 then
      verdict, said = V.LIMITED, whole(math.ceil(wait_us / 1000000))
    else
      local forgotten_ms = redis.call('PEXPIRETIME', key)
      if forgotten_ms > 0 then
        local beside = has_failed(string.sub(stored[2], 7)) and letter_weight(ARGV[row + 4]) or 0
        note_expiring(hours, -stored_weight(key) - beside, forgotten_ms)
      end
      local due_ms = math.max(now_ms, math.floor((after - 1000000) / 1000))
      more, paid_until = more + gain - callback_weight(#(stored[3] or '')), after
      verdict, said = V.DONE, 'p' .. moment(due_ms)
      plan[#plan + 1] = {schedule = ARGV[row], key = key, due_ms = due_ms, state = said, new = new}
    end
  end
  answer[place], answer[place + 1] = verdict, said
  came[#came + 1] = string.char(verdict)
end
if #plan == 0 then
  return answer
end
local expiring = next(hours) and read_expiring(base, hours)
local weight = added(base .. K.ACCOUNT, {'bytes'}, {more})

local due, schedules = {}, {}
for i, each in ipairs(plan) do
  redis.call('HSET', each.key, 'c', each.state)
  if each.new ~= '' then
    redis.call('HSET', each.key, 'r', each.new)
  end
  redis.call('PERSIST', each.key)
  due[2 * i - 1], due[2 * i], schedules[i] = each.due_ms, each.schedule, each.schedule
end
write(weight)
write_paid_until(base, paid_until, K.RESENDS, MOST_AHEAD_US / 1000 + 1000)
if expiring then
  write(expiring)
end
take_out_failures(queue, schedules)
await_callbacks(queue, {}, due)
note_done(base, operation, nil, table.concat(came))
return answer
