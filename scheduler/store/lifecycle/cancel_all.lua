#!lua flags=allow-oom
-- Cancels waiting schedules and gives their credits back, in one step; of their requests only a part
-- is kept. One that cannot be cancelled keeps no other from it. Safe to repeat with the same
-- operation for an hour.
-- KEYS[1]  the account's prefix
-- ARGV[1]  operation
-- ARGV[2]  how long an ended schedule is kept (ms)
-- ARGV[3]  how long the log is kept (ms)
-- ARGV[4]  most log entries
-- ARGV[5…] for each, none of them twice: schedule, the packed request as the caller read it, packed
--          outcome, what is kept of the request, packed, its packed log entry, URL bucket, URL digest
-- Returns  a character for each: 'c' cancelled, '0' no such schedule, '1' to '3' it has ended (the
--          number of its status), 'h' a worker holds it, 'a' it was attempted and waits for its next
--          attempt: to be cancelled by itself, 'r' it was changed since the caller read it, 'd' its
--          key is damaged
--@include now
--@include members
--@include moment
--@include accounts/ledger
--@include log/append
--@include lifecycle/weight
local base, operation = KEYS[1], KEYS[1] .. K.OPERATION .. ARGV[1]
local account, key = base .. K.ACCOUNT, base .. K.SCHEDULE

if redis.call('EXISTS', account) == 0 then
  return string.rep('0', (#ARGV - 4) / 7)
end
local done = redis.call('GET', operation)
if done then
  return done
end

local function judged(schedule, request)
  local stored = redis.pcall('HMGET', key .. schedule, 'r', 'o', 'n')
  if stored.err then
    return 'd'
  elseif not stored[1] then
    return '0'
  elseif stored[2] then
    return string.match(tostring(string.byte(stored[2], 8)), '^[1-3]$') or 'd'
  elseif redis.call('ZSCORE', base .. K.HELD, schedule) then
    return 'h'
  elseif stored[3] then
    return 'a'
  end
  return stored[1] == request and 'c' or 'r'
end

local codes, cancelled, entries = {}, {}, {}
local kept, weight, less = {}, 0, 0 -- flat, outcome and request of each; what these weigh
local urls, digests = {}, {} -- which URLs there are, and their digests by the bucket of the index
for i = 5, #ARGV, 7 do
  local schedule = ARGV[i]
  local code = judged(schedule, ARGV[i + 1])
  codes[#codes + 1] = code
  if code == 'c' then
    cancelled[#cancelled + 1], entries[#entries + 1] = schedule, ARGV[i + 4]
    kept[#kept + 1], kept[#kept + 2] = ARGV[i + 2], ARGV[i + 3]
    weight, less = weight + weight_of(#ARGV[i + 3]), less + #ARGV[i + 1] - #ARGV[i + 3]
    local bucket, digest = ARGV[i + 5], ARGV[i + 6]
    if not urls[bucket .. digest] then
      urls[bucket .. digest] = true
      digests[bucket] = (digests[bucket] or '') .. digest
    end
  end
end

-- Reads the rest, and returns a function that writes everything.
local function cancelling()
  local places, hours = {'cancelled', ''}, {}
  for bucket, digest in pairs(digests) do
    places[#places + 1], places[#places + 2] = bucket, digest
  end
  local ttl_ms, most, chunk = tonumber(ARGV[3]), tonumber(ARGV[4]), packed_chunk(entries)
  redis.call('ZCARD', base .. K.WAITING)
  redis.call('HLEN', base .. K.TRIED)
  local log = read_log(base, #entries, chunk)
  local ledger = added(account, {'credits', 'spent', 'bytes'}, {#cancelled, -#cancelled, -less})
  local movement = moved_credits(base, 'refunded', #cancelled)
  note_expiring(hours, weight, now_ms + ARGV[2])
  local expiring = read_expiring(base, hours)
  return function()
    append(base, log, chunk, #entries, places, ttl_ms, most)
    for n, schedule in ipairs(cancelled) do
      redis.call('HSET', key .. schedule, 'r', kept[2 * n], 'o', moment(log.at) .. kept[2 * n - 1])
      redis.call('PEXPIRE', key .. schedule, ARGV[2])
    end
    write(expiring)
    each_thousand('ZREM', base .. K.WAITING, cancelled)
    each_thousand('HDEL', base .. K.TRIED, cancelled)
    write(ledger)
    write(movement, ARGV[3])
  end
end

if #cancelled > 0 then
  cancelling()()
end
local text = table.concat(codes)
redis.call('SET', operation, text, 'PX', 3600000)
return text
