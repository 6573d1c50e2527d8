#!lua flags=allow-oom
-- Makes the next occurrences of rules, from the versions that the caller read. Rules of an account
-- share what is read and written of it: a command costs more to call than to carry out. Whatever
-- is out of the ordinary is left to `step`. Safe to repeat: the version has moved on then.
-- KEYS[1]  the shard's prefix
-- ARGV     how long a day's rollup is kept (ms), a list of plans with a quota: plan, bytes; it
--          begins with its length
-- ARGV[…]  for each rule: account, rule, its version, the next one, when to look after its
--          occurrence (ms), where it stands (field `n`), and of the occurrence a named row, as
--          `put.inc.lua` has it, due at its slot
-- Returns  {now (us), the verdict on each in a byte}: DONE; CHANGED: it has another version;
--          UNPAID, NO_ROOM, TOO_MANY_LANES; DAMAGED: it or its account; AGAIN: nothing was done,
--          it is for `step`
--@include shared/now
--@include lifecycle/row/place
--@include shared/ledger
--@include lifecycle/row/weight
--@include lifecycle/row/put
local prefix, ttl_ms, ROW, WIDTH = KEYS[1], ARGV[1], 6, 12
local quotas, first = {}, 3 + ARGV[2]
for i = 3, first - 1, 2 do
  quotas[ARGV[i]] = tonumber(ARGV[i + 1])
end

local accounts = {} -- local name -> its state
local function account_of(name)
  local account = accounts[name]
  if not account then
    account = payer_of(prefix, name)
    account.rules, account.rule_key = {}, account.base .. K.RULE
    account.sound = pcall(read_payer, account, quotas)
    accounts[name] = account
  end
  return account
end

-- Why the occurrence of a row cannot be stored; nil: it can, and its account takes it up. Without
-- lane and reference it is a plain row: the functions for named ones would add 4 % to an advance.
local function refusal(account, row)
  local key, is_plain = account.base .. ARGV[row], ARGV[row + 5] == '0'
  if not is_plain then
    local why = of_names().refusal(account, row)
    if not why then
      of_names().take(account, key, row)
    end
    return why
  elseif account.left < 1 then
    return V.UNPAID
  elseif not has_room(account, plain_weight(row)) then
    return V.NO_ROOM
  end
  take_plain(account, key, row)
end

-- The verdict on a rule, whose occurrence its account takes up if that is DONE.
local function take_up(account, i)
  local version = redis.call('HGET', account.rule_key .. ARGV[i + 1], 'v')
  if not version or not account.plan then
    return V.AGAIN
  elseif version ~= ARGV[i + 2] then
    return V.CHANGED
  end
  local why = refusal(account, i + ROW)
  if why then
    return why
  end
  account.rules[#account.rules + 1] = i
  return V.DONE
end

-- Reads and checks what `put` writes. Returns whether the keys of the occurrences are free.
local function check(account)
  local keys = {}
  for n = 1, #account.new, 2 do
    keys[#keys + 1] = account.new[n]
  end
  sum_up(account)
  return redis.call('EXISTS', unpack(keys)) == 0
end

local function store(account, looks)
  put(account, ttl_ms)
  for _, i in ipairs(account.rules) do
    local rule, count = ARGV[i + 1], #looks
    redis.call('HSET', account.rule_key .. rule, 'v', ARGV[i + 3], 'n', ARGV[i + 5])
    looks[count + 1], looks[count + 2] = ARGV[i + 4], account.name .. ':' .. rule
  end
end

check_heads(prefix)
redis.call('ZCARD', prefix .. K.RULES_DUE)
local verdicts, looks = {}, {}
for i = first, #ARGV, WIDTH do
  local account, sound, verdict = account_of(ARGV[i]), false, nil
  if account.sound then
    sound, verdict = pcall(take_up, account, i)
  end
  verdicts[i] = sound and verdict or V.DAMAGED
end

-- Where a key of an account is damaged, or something stands under a new one, `step` judges each.
for _, account in pairs(accounts) do
  if #account.rules > 0 then
    local sound, are_free = pcall(check, account)
    if not (sound and are_free and pcall(store, account, looks)) then
      for _, i in ipairs(account.rules) do
        verdicts[i] = V.AGAIN
      end
    end
  end
end
each_thousand('ZADD', prefix .. K.RULES_DUE, looks)
local replies = {}
for i = first, #ARGV, WIDTH do
  replies[#replies + 1] = string.char(verdicts[i])
end
return {now_us, table.concat(replies)}
