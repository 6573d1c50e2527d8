#!lua flags=allow-oom
-- Takes away what was left for a session's next page, from who shows it.
-- KEYS[1]  the shard's prefix
-- ARGV     SHA-256 of the session's secret, the words
-- Returns  1, or 0 if they are not there any more
local session = KEYS[1] .. K.SESSION .. ARGV[1]
if redis.call('HGET', session, 'said') ~= ARGV[2] then
  return 0
end
return redis.call('HDEL', session, 'said')
