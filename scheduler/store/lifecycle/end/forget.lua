#!lua flags=allow-oom
-- Takes dead letters off their list, for their owner: from then on each is kept as long as any
-- other ended schedule. A mark says that it was let go, so that a check does not miss it. Safe to
-- repeat with the same operation for a minute.
-- KEYS[1]  the shard's prefix
-- ARGV     account, operation, how long an ended schedule is kept (ms)
-- ARGV[4…] members of `failed`
-- Returns  a byte for each: DONE, UNKNOWN: it is no dead letter, or none any more
--@include shared/now
--@include shared/operation
--@include lifecycle/row/failed
--@include lifecycle/row/weight
local base, operation, kept_ms = KEYS[1] .. ARGV[1] .. ':', ARGV[2], tonumber(ARGV[3])
local before = redis.call('GET', base .. K.OPERATION .. operation)
if before then
  return before
end
local came, seen, hours, going = {}, {}, {}, {{}, {}, {}}
for i = 4, #ARGV do
  local member = ARGV[i]
  local ended_ms = not seen[member] and redis.call('ZSCORE', base .. K.FAILED, member)
  seen[member] = true
  came[#came + 1] = string.char(ended_ms and V.DONE or V.UNKNOWN)
  if ended_ms then
    let_letter_go(going, base, member, tonumber(ended_ms) + kept_ms, hours)
  end
end
came = table.concat(came)
if #going[1] == 0 then
  return came
end
redis.call('ZCARD', base .. K.FAILED_REFERENCES)
local expiring = next(hours) and read_expiring(base, hours)

for _, member in ipairs(going[1]) do
  local key = base .. string.sub(member, 1, 26)
  if redis.pcall('HEXISTS', key, 'o') == 1 then
    redis.call('HSET', key, 'g', '1')
  end
end
drop_letters(base, going)
if expiring then
  write(expiring)
end
note_done(base, operation, nil, came)
return came
