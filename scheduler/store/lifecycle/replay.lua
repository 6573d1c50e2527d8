#!lua
-- Makes new schedules of ones that have ended, and takes a credit for each, in one step. The ended
-- ones are told what became of them, and are dead letters no more. Safe to repeat: what is there
-- already is not made again. With a once-key it is done once in the key's life, and a later call
-- with the same key is told what came of the first one.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
-- ARGV[2]  how long a day's rollup is kept (ms)
-- ARGV[3]  how long an ended schedule is kept that is no dead letter (ms)
-- ARGV[4]  '1': what was replayed before is replayed again; '0': it is not
-- ARGV[5]  once-key ('': none)
-- ARGV[6]  how long it is kept (ms)
-- ARGV[7]  16 bytes that tell what was asked
-- ARGV[8]  the first new schedule, in 16 bytes
-- ARGV[9]  what else to keep with the key
-- ARGV[10] how many plans have a quota
-- ARGV[11…] for each of these: plan, what its schedules may weigh (bytes)
-- ARGV[…]  for each: ended schedule, new schedule, triggerAt (ms), packed request
-- Returns  {now (us), code, text}: code 1: a digit for each in the text: 1 replayed, 0 it is not
--          kept any more, 2 it has not ended, 3 it was replayed before, 4 there is no credit for
--          it, 6 it would take the account over its quota, 7 its key is damaged; code 0: the same
--          was asked before, and the text is what was kept: how many there were (2 bytes), the first
--          new schedule (16), the digits, what else was to be kept; -1: no such account; -2:
--          something else was asked with this key before
--@include now
--@include lifecycle/place
--@include accounts/ledger
--@include lifecycle/weight
local prefix, account, ttl_ms, again = KEYS[1], ARGV[1], ARGV[2], ARGV[4] == '1'
local base, queue = prefix .. account .. ':', queue_of(prefix, account)
local key, once = base .. K.SCHEDULE, ARGV[5] ~= '' and base .. K.ONCE .. ARGV[5]

local about = redis.call('HMGET', base .. K.ACCOUNT, 'credits', 'plan', 'bytes', 'settled')
local left, quota, first = number(about[1] or -1), math.huge, 11 + 2 * ARGV[10]
local bytes = stored_bytes(base, about[3], about[4])
for i = 11, first - 1, 2 do
  if ARGV[i] == about[2] then
    quota = tonumber(ARGV[i + 1])
  end
end
if left == -1 then
  return {now_us, -1, ''}
end
local known = once and redis.call('GET', once)
check_heads(prefix)
if known then
  if string.sub(known, 1, 16) ~= ARGV[7] then
    return {now_us, -2, ''}
  end
  return {now_us, 0, string.sub(known, 17)}
end

local taken = {} -- ended ones that this call replays
-- What speaks against making `new` of `ended`; nil if nothing does. That it is there already, made
-- by this very call before, counts for more.
local function fault(ended, new, weight)
  local stored, found = redis.pcall('HMGET', key .. ended, 'o', 'a'), nil
  if stored.err then
    return '7'
  elseif not stored[1] then
    found = redis.call('EXISTS', key .. ended) == 1 and '2' or '0'
  elseif (stored[2] or taken[ended]) and not again then
    found = '3'
  elseif left < 1 then
    found = '4'
  elseif bytes + weight > quota then
    found = '6'
  end
  if found and redis.call('EXISTS', key .. new) == 1 then
    return nil
  end
  return found
end

-- rows: flat, new schedule's key, its request, key of the ended one, new schedule; earlier: keys that
-- are to be forgotten sooner.
local codes, rows, new, gone, earlier, hours = {}, {}, {}, {}, {}, {}
local earliest, more, at_ms = math.huge, 0, now_ms + ARGV[3]
for i = first, #ARGV, 4 do
  local ended, made, weight = ARGV[i], ARGV[i + 1], weight_of(#ARGV[i + 3])
  local found = fault(ended, made, weight)
  if not found and redis.call('HEXISTS', key .. made, 'r') == 0 then
    left, bytes, more = left - 1, bytes + weight, more + weight
    new[#new + 1], new[#new + 2] = ARGV[i + 2], made
    earliest = math.min(earliest, tonumber(ARGV[i + 2]))
    local n = #rows
    rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = key .. made, ARGV[i + 3], key .. ended, made
    if forgotten_later(key .. ended, at_ms, hours) then
      earlier[#earlier + 1] = key .. ended
    end
    gone[#gone + 1], taken[ended] = ended, true
  end
  codes[#codes + 1] = found or '1'
end

-- Reads the rest, and returns a function that writes everything.
local function replaying()
  local made = #gone
  check_queue(queue)
  redis.call('ZCARD', base .. K.FAILED)
  local ledger = added(base .. K.ACCOUNT, {'credits', 'spent', 'bytes'}, {-made, made, more})
  local movement = moved_credits(base, 'spent', made)
  local expiring = #earlier > 0 and read_expiring(base, hours)
  return function()
    for n = 1, #rows, 4 do
      redis.call('HSET', rows[n], 'r', rows[n + 1])
      redis.call('HSET', rows[n + 2], 'a', rows[n + 3])
    end
    for _, ended in ipairs(earlier) do
      redis.call('PEXPIREAT', ended, whole(at_ms))
    end
    each_thousand('ZREM', base .. K.FAILED, gone)
    wait(queue, new, earliest)
    write(ledger)
    write(movement, ttl_ms)
    if expiring then
      write(expiring)
    end
  end
end

local text = table.concat(codes)
if #gone > 0 then
  replaying()()
end
if once and string.find(text, '1', 1, true) then
  local count = string.char(math.floor(#text / 256), #text % 256)
  redis.call('SET', once, ARGV[7] .. count .. ARGV[8] .. text .. ARGV[9], 'PX', ARGV[6])
end
return {now_us, 1, text}
