-- Appends a chunk of entries to an account's log, and its id to the index streams of its statuses
-- and URLs. The id, by the server's clock, is the moment of all its entries. Each append trims the
-- log by age and number; an idle account's streams expire. Needs `now`.

--@include shared/number
-- How many entries a chunk of the log counts as: those in it, or one for each 512 bytes, so that
-- long URLs do not make a log ten times as large.
local function counted_entries(entries, chunk)
  return math.max(entries, math.ceil(#chunk / 512))
end

-- How many entries a chunk has: the length of a msgpack array. Other bytes count as one.
local function entries_in(chunk)
  local head, high, low = string.byte(chunk, 1, 3)
  if not head or (head >= 0xa0 and not low) then
    return 1
  end
  if head < 0xa0 then
    return math.max(1, head - 0x90)
  end
  return high * 256 + low
end

-- The running totals of a log, after gains: completed, failed, total response time (ms).
local function totals_after(stored, gains)
  local completed, failed, time_ms = string.match(stored or '0 0 0', '^(%d+) (%d+) (%d+)$')
  if not completed then
    error('DAMAGED The totals of a log are none', 0)
  end
  return whole(plus(completed, gains[1])) .. ' ' .. whole(plus(failed, gains[2])) .. ' '
    .. whole(plus(time_ms, gains[3]))
end

-- An index of URLs is trimmed, and gets its time to live, once in each half of a day: both cost
-- more than the entry, and the log is kept a day longer than promised. `x` of `logged` is the
-- number of the half and a bit for each of the 256 indexes that was renewed in it. Returns these
-- bits.
local half = whole(math.floor(now_ms / 43200000)) .. ':'
local function renewed_in(stored)
  if stored and #stored == #half + 32 and string.sub(stored, 1, #half) == half then
    return string.sub(stored, #half + 1)
  end
  return string.rep('\0', 32)
end

-- The bits with that of an index, if it is one of URLs; nil if it was renewed.
local function renewed_with(bits, name)
  local n = tonumber(name, 16)
  if not n then
    return bits
  end
  local place, bit = math.floor(n / 8) + 1, 2 ^ (n % 8)
  local byte = string.byte(bits, place)
  if byte % (2 * bit) >= bit then
    return nil
  end
  return string.sub(bits, 1, place - 1) .. string.char(byte + bit) .. string.sub(bits, place + 1)
end

-- Reads, before the first write, the state that `append` changes; raises if it is damaged. gains:
-- what the chunk adds to the totals, if anything. Returns {at: the chunk's moment (ms), entries:
-- how many the log will have, first: up to when (ms) it was trimmed, totals: the new ones, renewed:
-- bits of the indexes}.
local function read_log(base, count, chunk, gains)
  local log, at = base .. K.LOG, now_ms
  -- Has the log an entry of this millisecond, or a later one because the clock was set back?
  local ahead = redis.call('XREAD', 'COUNT', 1, 'STREAMS', log, now_ms - 1)
  if ahead and ahead[1] then
    local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1][1]
    at = math.max(now_ms, number(string.match(last, '^%d+')))
  end
  local logged = redis.call('HMGET', base .. K.LOGGED, 'n', 'first', 't', 'x')
  local entries = plus(logged[1], counted_entries(count, chunk))
  local totals = gains and totals_after(logged[3], gains) or logged[3] or '0 0 0'
  return {at = at, entries = entries, first = number(logged[2]), totals = totals,
    renewed = renewed_in(logged[4])}
end

-- Removes the oldest chunks: those from before `oldest_ms`, and `over` surplus entries,
-- but not the new one, `id`. Not all at once, but more than the `count` entries that came. Returns
-- how many entries it removed and, if any, the moment (ms) of the last.
local function trim(log, oldest_ms, over, id, count)
  local removed, last, looks = 0, nil, 0
  repeat
    local from, to = last and '(' .. last or '-', over > removed and '(' .. id or whole(oldest_ms)
    local old, kept = redis.call('XRANGE', log, from, to, 'COUNT', 2), false
    for _, chunk in ipairs(old) do
      kept = tonumber(string.match(chunk[1], '^%d+')) >= oldest_ms and removed >= over
      if kept then
        break
      end
      removed = removed + counted_entries(entries_in(chunk[2][2]), chunk[2][2])
      last = chunk[1]
    end
    looks = looks + 1
  until kept or #old < 2 or looks == 64 or removed >= math.max(over, 2 * count)
  if not last then
    return 0, nil
  end
  local ms, sequence = string.match(last, '^(%d+)-(%d+)$')
  local next = ms .. '-' .. whole(sequence + 1)
  if tonumber(sequence) >= 2 ^ 53 then
    next = whole(ms + 1) .. '-0'
  end
  redis.call('XTRIM', log, 'MINID', '=', next)
  return removed, tonumber(ms)
end

-- places: flat, the names of indexes and the digests in the chunk; state: from `read_log`. An index
-- that is damaged stays as it is: lists of one status or URL lack the chunk then, the log does not.
local function append(base, state, chunk, count, places, ttl_ms, most)
  local log, logged = base .. K.LOG, base .. K.LOGGED
  local oldest_ms, first = math.max(0, now_ms - ttl_ms), state.first
  local id = redis.call('XADD', log, whole(state.at) .. '-*', 'e', chunk, 't', state.totals)
  local size = counted_entries(count, chunk)
  local removed, trimmed_ms = trim(log, oldest_ms, state.entries - most, id, size)
  redis.call('HSET', logged, 'n', whole(state.entries - removed), 't', state.totals)
  if trimmed_ms then
    first = trimmed_ms + 1
    redis.call('HSET', logged, 'first', whole(first))
  end
  local oldest, renewed = whole(math.max(1, oldest_ms, first) - 1), state.renewed
  for i = 1, #places, 2 do
    local index = base .. K.INDEX .. places[i]
    local with, added = renewed_with(renewed, places[i]), nil
    if with or state.entries > most then
      added = redis.pcall('XADD', index, 'MINID', '~', oldest, id, 'h', places[i + 1])
    else
      added = redis.pcall('XADD', index, id, 'h', places[i + 1])
    end
    if with and type(added) == 'string' then
      redis.call('PEXPIRE', index, ttl_ms)
      renewed = with
    end
  end
  if renewed ~= state.renewed then
    redis.call('HSET', logged, 'x', half .. renewed)
  end
  redis.call('PEXPIRE', log, ttl_ms)
  redis.call('PEXPIRE', logged, ttl_ms)
end
