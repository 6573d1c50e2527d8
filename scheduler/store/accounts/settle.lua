#!lua flags=allow-oom
-- Forgets the other name of an account, which has been freed. Safe to repeat.
-- KEYS[1]  the account's prefix
-- ARGV[1]  that name
if redis.call('HGET', KEYS[1] .. K.ACCOUNT, 'also') == ARGV[1] then
  redis.call('HDEL', KEYS[1] .. K.ACCOUNT, 'also')
end
return 1
