#!lua flags=no-writes
-- A step of a walk that counts what waits in a shard. Damaged accounts are not counted.
-- KEYS[1]  the shard's prefix
-- ARGV     where the walk stands ('0': at its beginning), about how many accounts to look at
-- Returns  {where it stands now ('0': at its end), waiting, held by workers}
local page = redis.call('ZSCAN', KEYS[1] .. K.HEADS, ARGV[1], 'COUNT', ARGV[2])
local all, held = 0, 0
for i = 1, #page[2], 2 do
  local base = KEYS[1] .. page[2][i] .. ':'
  local theirs = redis.pcall('ZCARD', base .. K.WAITING)
  local theirs_held = redis.pcall('ZCARD', base .. K.HELD)
  if type(theirs) == 'number' and type(theirs_held) == 'number' then
    all, held = all + theirs, held + theirs_held
  end
end
return {page[1], math.max(0, all - held), held}
