#!lua flags=allow-oom
-- Its owner stops a bulk action, or closes one on the pages. What it has begun it finishes. Safe to
-- repeat.
-- KEYS[1]  the account's prefix
-- ARGV     action, 'stop' or 'close'
-- Returns  DONE; UNKNOWN: there is none
local key = KEYS[1] .. K.BULK .. ARGV[1]
local state = redis.call('HGET', key, 's')
if not state then
  return V.UNKNOWN
elseif ARGV[2] == 'close' then
  redis.call('HSET', key, 'c', '1')
elseif state == 'running' then
  redis.call('HSET', key, 's', 'stopping')
end
return V.DONE
