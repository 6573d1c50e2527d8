#!lua flags=allow-oom
-- Makes the next occurrences of rules, from the versions that the caller read. Rules of an account
-- share what is read and written of it: a command costs more to call than to carry out. Whatever
-- is out of the ordinary is left to `step`. Safe to repeat: the version has moved on then.
-- KEYS[1]  the shard's prefix
-- ARGV     how long a day's rollup is kept (ms), a list of plans with a quota: plan, bytes; it
--          begins with its length
-- ARGV[…]  for each rule: account, rule, its version, the next one, when to look after its
--          occurrence (ms), the newest slot that was fired or missed (ms), the occurrence: schedule,
--          slot (ms), request
-- Returns  {now (us), the verdict on each in a byte}: DONE; CHANGED: it has another version;
--          UNPAID, NO_ROOM; DAMAGED: it or its account; AGAIN: nothing was done, it is for `step`
--@include shared/now
--@include lifecycle/row/place
--@include shared/ledger
--@include lifecycle/row/weight
local reference_of, reference_weight
--@include lifecycle/row/reference
local prefix, ttl_ms, WIDTH = KEYS[1], ARGV[1], 9
local quotas, first = {}, 3 + ARGV[2]
for i = 3, first - 1, 2 do
  quotas[ARGV[i]] = tonumber(ARGV[i + 1])
end

-- Raises if the account is damaged.
local function read(account)
  local base = account.base
  local stored = redis.call('HMGET', base .. K.ACCOUNT, 'credits', 'spent', 'plan', 'bytes',
    'settled')
  account.known, account.left, account.spent = stored[3], number(stored[1]), number(stored[2])
  account.quota = quotas[stored[3]] or math.huge
  account.bytes, account.over = stored_bytes(base, stored[4], stored[5])
  redis.call('ZCARD', account.queue.waiting)
end

local accounts = {} -- local name -> its state
local function account_of(name)
  local account = accounts[name]
  if not account then
    local base = prefix .. name .. ':'
    account = {name = name, base = base, queue = queue_of(prefix, name), rows = {}, weight = 0,
      queues = {}, referred = {}, rule_key = base .. K.RULE, key = base .. K.SCHEDULE}
    account.sound = pcall(read, account)
    accounts[name] = account
  end
  return account
end

-- Where those of a lane, or of none, are to wait: {queue, flat: when due (ms) and schedule,
-- earliest}; false if the lane is new to the account.
local function queue_for(account, lane)
  local found = account.queues[lane or '']
  if found == nil then
    local queue = lane and queue_of(prefix, account.name .. '/' .. lane) or account.queue
    found = false
    if not lane or redis.call('ZSCORE', queue.lanes, lane) then
      if lane then
        check_queue(queue)
      end
      found = {queue = queue, due = {}, earliest = math.huge}
    end
    account.queues[lane or ''] = found
  end
  return found
end

-- The verdict on a row, which its account takes up if that is DONE.
local function take_up(account, row)
  local version = redis.call('HGET', account.rule_key .. ARGV[row + 1], 'v')
  if not version or not account.known then
    return V.AGAIN
  elseif version ~= ARGV[row + 2] then
    return V.CHANGED
  elseif account.left < 1 then
    return V.UNPAID
  end
  local schedule, due, request = ARGV[row + 6], ARGV[row + 7], ARGV[row + 8]
  local weight, lane, reference = weight_of(#request), nil, nil
  if string.byte(request) ~= S.RECURRING then -- behind the heads of a lane and a reference
    lane, reference = lane_of(request), reference_of(request)
    weight = weight + reference_weight(request)
  end
  if account.bytes + account.weight + weight > account.quota then
    return V.NO_ROOM
  end
  local waits = queue_for(account, lane)
  if not waits then
    return V.AGAIN
  elseif reference then
    local referred = account.referred
    referred[#referred + 1], referred[#referred + 2] = 0, reference .. '\0' .. schedule
  end
  account.left, account.weight = account.left - 1, account.weight + weight
  local count = #waits.due
  waits.due[count + 1], waits.due[count + 2] = due, schedule
  waits.earliest = math.min(waits.earliest, due)
  account.rows[#account.rows + 1] = row
  return V.DONE
end

local function sum_up(account)
  local taken = #account.rows
  account.sums = {'credits', whole(account.left), 'spent', whole(plus(account.spent, taken)),
    'bytes', whole(plus(account.bytes, account.weight))}
  account.movement = moved_credits(account.base, 'spent', taken)
  if #account.referred > 0 then
    redis.call('ZCARD', account.base .. K.REFERENCES)
  end
end

-- Writes the requests of an account. These first writes are their own check: where one fails it
-- undoes those before it, and returns false.
local function store_requests(account)
  for n, row in ipairs(account.rows) do
    local name = account.key .. ARGV[row + 6]
    if redis.pcall('HSET', name, 'r', ARGV[row + 8]) ~= 1 then
      for k = 1, n - 1 do
        redis.call('UNLINK', account.key .. ARGV[account.rows[k] + 6])
      end
      return false
    end
  end
  return true
end

-- The other writes cannot fail.
local function store(account, looks)
  for _, waits in pairs(account.queues) do
    if waits then
      wait(waits.queue, waits.due, waits.earliest)
    end
  end
  for _, row in ipairs(account.rows) do
    local rule, count = ARGV[row + 1], #looks
    redis.call('HSET', account.rule_key .. rule, 'v', ARGV[row + 3], 'l', ARGV[row + 5], 'i',
      ARGV[row + 6], 's', ARGV[row + 7])
    looks[count + 1], looks[count + 2] = ARGV[row + 4], account.name .. ':' .. rule
  end
  redis.call('HSET', account.base .. K.ACCOUNT, unpack(account.sums))
  write(account.movement, ttl_ms)
  each_thousand('ZADD', account.base .. K.REFERENCES, account.referred)
  if account.over then
    settle(account.base, account.over)
  end
end

check_heads(prefix)
redis.call('ZCARD', prefix .. K.RULES_DUE)
local verdicts, looks = {}, {}
for row = first, #ARGV, WIDTH do
  local account, sound, verdict = account_of(ARGV[row]), false, nil
  if account.sound then
    sound, verdict = pcall(take_up, account, row)
  end
  verdicts[row] = sound and verdict or V.DAMAGED
end
for _, account in pairs(accounts) do
  if #account.rows > 0 then
    if pcall(sum_up, account) and store_requests(account) then
      store(account, looks)
    else
      for _, row in ipairs(account.rows) do
        verdicts[row] = V.DAMAGED
      end
    end
  end
end
each_thousand('ZADD', prefix .. K.RULES_DUE, looks)
local replies = {}
for row = first, #ARGV, WIDTH do
  replies[#replies + 1] = string.char(verdicts[row])
end
return {now_us, table.concat(replies)}
