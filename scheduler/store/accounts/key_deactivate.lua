#!lua flags=allow-oom
-- Deactivates an API key, from the next request on. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     key id, who deactivates it
-- Returns  the key's SHA-256, or '' if there is no such key
--@include events/note
local hash = redis.call('GET', KEYS[1] .. K.KEY_ID .. ARGV[1])
local key = KEYS[1] .. K.API_KEY .. (hash or '')
if not hash or redis.call('HLEN', key) == 0 then
  return ''
end
local account, name, active = unpack(redis.call('HMGET', key, 'account', 'name', 'active'))
redis.call('HSET', key, 'active', '0')
if account and active == '1' then
  note_own(KEYS[1] .. account .. ':', {k = 'api-key-deactivated', w = ARGV[2], t = name})
end
return hash
