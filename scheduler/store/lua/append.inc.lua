-- Appends entries to accounts' logs, and their ids to the index streams of status and URL.
-- The id, given by the server here, is the entry's moment: it decides period, order and rollup.
-- Trims as it goes, by count and by age, so that no janitor is needed; an idle account's streams
-- expire as a whole. What is the same for all entries of one script is done once.
local function appender(ttl_ms, most_entries)
  local logs = {} -- account's prefix -> its log's name, oldest id and index streams

  local function keep(stream)
    redis.call('PEXPIRE', stream, ttl_ms)
    return stream
  end

  local function trimmed(base)
    local log = {name = base .. 'log', indexes = {}}
    redis.call('XTRIM', log.name, 'MINID', '~', math.max(0, now_ms - ttl_ms))
    log.oldest = redis.call('XRANGE', log.name, '-', '+', 'COUNT', 1)[1]
    logs[base] = log
    return log
  end

  local function index(base, log, what, id, digest)
    local name = log.indexes[what]
    if name then
      redis.call('XADD', name, 'MINID', '~', log.oldest, id, 'h', digest)
    else
      name = base .. 'index:' .. what
      redis.call('XADD', name, 'MINID', '~', log.oldest, id, 'h', digest)
      log.indexes[what] = keep(name)
    end
  end

  -- base: the account's prefix. Returns the moment in ms.
  return function(base, status, entry, bucket, digest)
    local log = logs[base] or trimmed(base)
    local id = redis.call('XADD', log.name, 'MAXLEN', '~', most_entries, '*', 'e', entry)
    if not log.kept then
      log.kept = keep(log.name)
      log.oldest = log.oldest and log.oldest[1] or id
    end
    index(base, log, status, id, '')
    index(base, log, bucket, id, digest)
    return tonumber(string.match(id, '^%d+'))
  end
end
