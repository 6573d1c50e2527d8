-- Stores new schedules, each for a credit, and gives waiting ones another request. Only this file
-- takes credits, judges what an account's schedules may weigh, and writes requests that wait. Reads
-- and checks come first (`read_payer` to `sum_up`); then `put` writes.
-- A plain row of the arguments has a schedule, its triggerAt (ms), and its packed request. A named
-- row goes on with its lane, its reference ('': none), and what these two weigh (bytes; `Names` in
-- heads.py), so that no script reads them in the request. If all rows were named, a create of plain
-- ones would cost 8 % more. Needs `now`, `place`, `ledger`, `weight`.

-- An account that pays for schedules. All fields at once: Lua enlarges a table in steps.
local function payer_of(prefix, name)
  local base = prefix .. name .. ':'
  return {prefix = prefix, name = name, base = base, queue = queue_of(prefix, name), plan = false,
    suspended = false, left = 0, spent = 0, bytes = 0, over = false, quota = math.huge, new = {},
    waiting = {}, hours = {}, weight = 0, earliest = math.huge, sums = false}
end

-- Raises if the account is damaged. Without a plan there is no such account. quotas: by plan.
local function read_payer(account, quotas)
  local base = account.base
  local stored = redis.call('HMGET', base .. K.ACCOUNT, 'credits', 'spent', 'plan', 'bytes',
    'settled', 'suspended')
  account.left, account.spent = number(stored[1]), number(stored[2])
  account.plan, account.suspended = stored[3], stored[6]
  account.quota = quotas[stored[3]] or math.huge
  account.bytes, account.over = stored_bytes(base, stored[4], stored[5])
end

-- What a schedule without names weighs (bytes), by the place of its packed request.
local function weight_at(request)
  return weight_of(#ARGV[request])
end

local function plain_weight(row)
  return weight_at(row + 2)
end

-- Whether an account's schedules would weigh too much if they came to weigh so much more (bytes).
local function is_over(account, more)
  return more > 0 and account.bytes + more > account.quota
end

-- Whether so many bytes fit beside all that the call has taken up.
local function has_room(account, bytes)
  return bytes <= 0 or not is_over(account, account.weight + bytes)
end

-- Takes up the schedule of a plain row, which is stored under `key`. Returns its place in `new`.
local function take_plain(account, key, row)
  local new, waiting, request, at = account.new, account.waiting, ARGV[row + 2], ARGV[row + 1]
  local n, due = #new, at + 0
  new[n + 1], new[n + 2], waiting[n + 1], waiting[n + 2] = key, request, at, ARGV[row]
  account.left, account.weight = account.left - 1, account.weight + plain_weight(row)
  if due < account.earliest then
    account.earliest = due
  end
  return n + 1
end

local named = nil
-- The functions for named rows, and for schedules that get another request. They are made when they
-- are first needed, as they would make a create of one plain row 4 % dearer.
local function of_names()
  if not named then
    named = {}
--@include lifecycle/row/named
  end
  return named
end

-- Reads and checks the rest of what `put` writes, if there is any. Raises if a key is damaged.
local function sum_up(account)
  local taken = #account.new / 2
  if taken > 0 then
    account.sums = {'credits', whole(account.left), 'spent', whole(plus(account.spent, taken)),
      'bytes', whole(plus(account.bytes, account.weight))}
    account.movement = moved_credits(account.base, 'spent', taken)
  elseif account.weight ~= 0 or account.moved or next(account.hours) then
    account.sums = {'bytes', whole(plus(account.bytes, account.weight))}
  end
  if account.referred or account.unreferred then
    redis.call('ZCARD', account.base .. K.REFERENCES)
  end
  if account.laned or account.moved then
    account.parts = of_names().parts_of(account)
  end
  account.expiring = next(account.hours) and read_expiring(account.base, account.hours)
end

local function put_in_queues(account)
  if not account.parts then
    wait(account.queue, account.waiting, account.earliest)
    return
  end
  for _, part in ipairs(account.parts) do
    leave(part.queue, part.gone)
  end
  for _, part in ipairs(account.parts) do
    wait(part.queue, part.due, part.earliest)
  end
end

-- Cannot fail but for the first write, if the keys of new schedules are free or hashes. ttl_ms: how
-- long a day's rollup is kept.
local function put(account, ttl_ms)
  local new = account.new
  put_in_queues(account)
  for n = 1, #new, 2 do
    redis.call('HSET', new[n], 'r', new[n + 1])
  end
  for key, one in pairs(account.moved or {}) do
    redis.call('HSET', key, 'r', one.request)
    if one.attempt then
      redis.call('HSET', key, 'n', one.attempt)
    end
  end
  if account.sums then
    redis.call('HSET', account.base .. K.ACCOUNT, unpack(account.sums))
  end
  if account.over then
    settle(account.base, account.over)
  end
  if account.movement then
    write(account.movement, ttl_ms)
  end
  each_thousand('ZREM', account.base .. K.REFERENCES, account.unreferred or {})
  if account.referred then
    local members = {}
    for n, member in ipairs(account.referred) do
      members[2 * n - 1], members[2 * n] = 0, member
    end
    each_thousand('ZADD', account.base .. K.REFERENCES, members)
  end
  if account.expiring then
    write(account.expiring)
  end
end
