-- Appends entries to accounts' logs, and their ids to the index streams of status and URL.
-- The id, given by the server here, is the entry's moment: it decides period, order and rollup.
-- Trims as it goes, by count and by age, so that no janitor is needed; an idle account's streams
-- expire as a whole. What is the same for all entries of one script is done once.
local function appender(ttl_ms, most_entries)
  local oldest, kept = {}, {}

  local function keep(stream)
    if not kept[stream] then
      kept[stream] = true
      redis.call('PEXPIRE', stream, ttl_ms)
    end
  end

  -- base: the account's prefix. Returns the moment in ms.
  return function(base, status, entry, bucket, digest)
    local log = base .. 'log'
    local id = redis.call('XADD', log, 'MAXLEN', '~', most_entries, '*', 'e', entry)
    local first = oldest[base]
    if not first then
      redis.call('XTRIM', log, 'MINID', '~', math.max(0, now_ms - ttl_ms))
      keep(log)
      first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1][1]
      oldest[base] = first
    end
    local by_status, by_url = base .. 'index:' .. status, base .. 'index:' .. bucket
    redis.call('XADD', by_status, 'MINID', '~', first, id, 'h', '')
    redis.call('XADD', by_url, 'MINID', '~', first, id, 'h', digest)
    keep(by_status)
    keep(by_url)
    return tonumber(string.match(id, '^%d+'))
  end
end
