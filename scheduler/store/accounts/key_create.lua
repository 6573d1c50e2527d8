#!lua
-- Makes an API key; beyond the most in all, forgets the oldest inactive one. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, key id, SHA-256 of the key, name, its beginning, most active ones, most in
--          all, who makes it
-- Returns  when it was made (ms; now or before), 0 no such account, -1 it has as many active ones as
--          it may
--@include shared/now
--@include events/note
local prefix, base = KEYS[1], KEYS[1] .. ARGV[1] .. ':'
local key = prefix .. K.API_KEY .. ARGV[3]
if redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return 0
end
local created = redis.call('HGET', key, 'created')
if created then
  return tonumber(created)
end

local made, active, inactive = redis.call('ZRANGE', base .. K.KEYS, 0, -1), 0, nil
for _, id in ipairs(made) do
  local hash = redis.call('GET', prefix .. K.KEY_ID .. id)
  if hash and redis.call('HGET', prefix .. K.API_KEY .. hash, 'active') == '1' then
    active = active + 1
  else
    inactive = inactive or {id, hash}
  end
end
if active >= tonumber(ARGV[6]) then
  return -1
end
if inactive and #made >= tonumber(ARGV[7]) then
  redis.call('ZREM', base .. K.KEYS, inactive[1])
  redis.call('DEL', prefix .. K.KEY_ID .. inactive[1], prefix .. K.API_KEY .. (inactive[2] or ''))
end
redis.call('HSET', key, 'account', ARGV[1], 'id', ARGV[2], 'name', ARGV[4], 'prefix', ARGV[5],
  'active', '1', 'created', now_ms)
redis.call('SET', prefix .. K.KEY_ID .. ARGV[2], ARGV[3])
redis.call('ZADD', base .. K.KEYS, now_ms, ARGV[2])
note_own(base, {k = 'api-key-made', w = ARGV[8], t = ARGV[4]})
return now_ms
