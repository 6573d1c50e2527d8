#!lua flags=no-writes
-- A step of a walk over the ledgers of a shard. A damaged one does not balance and adds nothing.
-- KEYS[1]  the shard's prefix
-- ARGV     where the walk stands ('0': at its beginning), about how many accounts to look at
-- Returns  {where it stands now ('0': at its end), accounts, those whose ledger does not balance,
--          credits remaining, credits spent}
--@include number
local page = redis.call('ZSCAN', KEYS[1] .. K.ACCOUNTS, ARGV[1], 'COUNT', ARGV[2])
local accounts, broken, remaining, all_spent = 0, 0, 0, 0
local function read(account)
  local key = KEYS[1] .. account .. ':' .. K.ACCOUNT
  local ledger = redis.call('HMGET', key, 'granted', 'credits', 'spent')
  return number(ledger[1]), number(ledger[2]), number(ledger[3])
end
for i = 1, #page[2], 2 do
  local sound, granted, credits, spent = pcall(read, page[2][i])
  accounts = accounts + 1
  if not sound or granted ~= credits + spent or credits < 0 then
    broken = broken + 1
  end
  if sound then
    remaining, all_spent = remaining + credits, all_spent + spent
  end
end
return {page[1], accounts, broken, remaining, all_spent}
