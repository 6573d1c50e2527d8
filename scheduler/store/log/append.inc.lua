-- Appends a chunk of entries to an account's log, and its id to the index streams of the statuses
-- and URLs in it. The id, given by the server here, is the moment of all its entries: it decides
-- period, order and rollup. Trims as it goes, by age and by number of entries, so that no janitor
-- is needed; an idle account's streams expire as a whole. Needs `now`.

--@include log/chunk
--@include number
-- Removes the oldest chunks: those from before `oldest_ms`, and what is `over` the most entries, but
-- not the one that came, `id`. Not all at once, but more than the `count` entries that it has, be
-- each of the old ones a chunk by itself.
local function trim(log, logged, oldest_ms, over, id, count)
  local removed, last, looks = 0, nil, 0
  repeat
    local from, to = last and '(' .. last or '-', over > removed and '(' .. id or oldest_ms
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
  if last then
    local ms, sequence = string.match(last, '^(%d+)-(%d+)$')
    redis.call('XTRIM', log, 'MINID', '=', ms .. '-' .. whole(sequence + 1))
    redis.call('HINCRBY', logged, 'n', whole(-removed))
    redis.call('HSET', logged, 'first', ms + 1)
  end
end

-- base: the account's prefix; places: flat, what is indexed and the digests of it in the chunk.
-- Returns the moment in ms.
local function append(base, chunk, count, places, ttl_ms, most)
  local log, logged = base .. K.LOG, base .. K.LOGGED
  local oldest_ms = math.max(0, now_ms - ttl_ms)
  count = counted_entries(count, chunk)
  local id = redis.call('XADD', log, '*', 'e', chunk)
  local entries = redis.call('HINCRBY', logged, 'n', count)
  trim(log, logged, oldest_ms, entries - most, id, count)
  local first = math.max(oldest_ms, tonumber(redis.call('HGET', logged, 'first') or '0'))
  for i = 1, #places, 2 do
    local index = base .. K.INDEX .. places[i]
    redis.call('XADD', index, 'MINID', '~', math.max(0, first - 1), id, 'h', places[i + 1])
    redis.call('PEXPIRE', index, ttl_ms)
  end
  redis.call('PEXPIRE', log, ttl_ms)
  redis.call('PEXPIRE', logged, ttl_ms)
  return tonumber(string.match(id, '^%d+'))
end
