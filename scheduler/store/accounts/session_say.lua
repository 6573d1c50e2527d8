#!lua flags=allow-oom
-- Leaves words for a session's next page. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account (not looked at), SHA-256 of the session's secret, the words
-- Returns  1, or 0 if the session is closed
local session = KEYS[1] .. K.SESSION .. ARGV[2]
if redis.call('EXISTS', session) == 0 then
  return 0
end
redis.call('HSET', session, 'said', ARGV[3])
return 1
