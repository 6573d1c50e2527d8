#!lua flags=no-writes
-- A step of a walk over the accounts of a shard. Of a damaged one nothing is added, and its ledger
-- does not balance.
-- KEYS[1]  the shard's prefix
-- ARGV     where the walk stands ('0': at its beginning), about how many accounts to look at
-- Returns  {where it stands now ('0': at its end), schedules waiting, held by workers, accounts,
--          those whose ledger does not balance, credits remaining, credits spent, lanes that are
--          idle, ready, looked at later, paused without an end; callbacks that are pending, and
--          accounts of which some wait for a retry; recurring schedules that are active, paused,
--          blocked, ended}
--@include shared/now
--@include shared/number
local page = redis.call('ZSCAN', KEYS[1] .. K.ACCOUNTS, ARGV[1], 'COUNT', ARGV[2])
local all, held, broken, remaining, all_spent = 0, 0, 0, 0, 0
local idle, ready, later, paused = 0, 0, 0, 0
local pending, failing = 0, 0
local rules = {0, 0, 0, 0}
local function add_schedules(base)
  local theirs = redis.call('ZCARD', base .. K.WAITING) + redis.call('ZCARD', base .. K.LANED)
  local theirs_held = redis.call('ZCARD', base .. K.HELD)
  all, held = all + theirs, held + theirs_held
end
local function add_lanes(base)
  local lanes, heads = redis.call('ZCARD', base .. K.LANES), base .. K.LANE_HEADS
  if lanes > 0 then
    local theirs_paused = redis.call('ZCOUNT', heads, '-inf', '-inf')
    local theirs_ready = redis.call('ZCOUNT', heads, '(-inf', now_ms)
    local theirs_later = redis.call('ZCOUNT', heads, '(' .. now_ms, '+inf')
    idle = idle + math.max(0, lanes - theirs_paused - theirs_ready - theirs_later)
    ready, later, paused = ready + theirs_ready, later + theirs_later, paused + theirs_paused
  end
end
local function add_callbacks(base)
  local theirs = redis.call('ZCARD', base .. K.CALLBACKS)
  if theirs > 0 then
    -- The first attempt is due with the end: one in the future is held by a worker, or failed.
    local due = redis.call('ZCOUNT', base .. K.CALLBACKS, '-inf', now_ms)
    local theirs_held = redis.call('ZCOUNT', base .. K.CALLING, '(' .. now_ms, '+inf')
    pending, failing = pending + theirs, failing + (theirs > due + theirs_held and 1 or 0)
  end
end
local function add_rules(base)
  local active = redis.call('ZCARD', base .. K.RULES)
  if active > 0 then
    for state = 1, 3 do
      local count = redis.call('ZCOUNT', base .. K.RULE_STATES, state, state)
      active, rules[state + 1] = active - count, rules[state + 1] + count
    end
    rules[1] = rules[1] + math.max(0, active)
  end
end
local function add_ledger(base)
  local ledger = redis.call('HMGET', base .. K.ACCOUNT, 'granted', 'credits', 'spent')
  local granted, credits, spent = number(ledger[1]), number(ledger[2]), number(ledger[3])
  remaining, all_spent = remaining + credits, all_spent + spent
  return granted == credits + spent and credits >= 0
end
for i = 1, #page[2], 2 do
  local base = KEYS[1] .. page[2][i] .. ':'
  pcall(add_schedules, base)
  pcall(add_lanes, base)
  pcall(add_callbacks, base)
  pcall(add_rules, base)
  local sound, balances = pcall(add_ledger, base)
  broken = broken + (sound and balances and 0 or 1)
end
return {page[1], math.max(0, all - held), held, #page[2] / 2, broken, remaining, all_spent,
  idle, ready, later, paused, pending, failing, unpack(rules)}
