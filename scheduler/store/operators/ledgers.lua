#!lua flags=no-writes
-- How the ledgers of some accounts stand: a step of a walk over all that a shard has.
-- KEYS[1]  the shard's prefix
-- ARGV     where the walk stands ('0': at its beginning), about how many accounts to look at
-- Returns  {where it stands now ('0': at its end), accounts, those whose ledger does not balance,
--          credits remaining, credits spent}
local page = redis.call('ZSCAN', KEYS[1] .. K.ACCOUNTS, ARGV[1], 'COUNT', ARGV[2])
local accounts, broken, remaining, all_spent = 0, 0, 0, 0
for i = 1, #page[2], 2 do
  local ledger = redis.call(
    'HMGET', KEYS[1] .. page[2][i] .. ':' .. K.ACCOUNT, 'granted', 'credits', 'spent'
  )
  local granted, credits = tonumber(ledger[1] or '0'), tonumber(ledger[2] or '0')
  local spent = tonumber(ledger[3] or '0')
  accounts = accounts + 1
  if granted ~= credits + spent or credits < 0 then
    broken = broken + 1
  end
  remaining = remaining + credits
  all_spent = all_spent + spent
end
return {page[1], accounts, broken, remaining, all_spent}
