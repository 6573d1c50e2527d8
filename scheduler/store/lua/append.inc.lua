-- Appends one entry to an account's log, and its id to the index streams of its status and URL.
-- The id, given by the server here, is the entry's moment: it decides period, order and rollup.
-- Trims as it goes, by count and by age, so that no janitor is needed; an idle account's streams
-- expire as a whole. limits: {ttl_ms, most_entries}. Returns the moment in ms.
local function append(base, limits, status, entry, bucket, digest)
  local log = base .. 'log'
  local id = redis.call('XADD', log, 'MAXLEN', '~', limits.most_entries, '*', 'e', entry)
  local oldest = limits.oldest[base]
  if not oldest then
    redis.call('XTRIM', log, 'MINID', '~', math.max(0, now_ms - limits.ttl_ms))
    redis.call('PEXPIRE', log, limits.ttl_ms)
    oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1][1]
    limits.oldest[base] = oldest
  end
  local by_status, by_url = base .. 'index:' .. status, base .. 'index:' .. bucket
  redis.call('XADD', by_status, 'MINID', '~', oldest, id, 'h', '')
  redis.call('XADD', by_url, 'MINID', '~', oldest, id, 'h', digest)
  redis.call('PEXPIRE', by_status, limits.ttl_ms)
  redis.call('PEXPIRE', by_url, limits.ttl_ms)
  return tonumber(string.match(id, '^%d+'))
end
