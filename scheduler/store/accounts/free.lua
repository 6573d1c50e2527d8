#!lua flags=allow-oom
-- Frees a reserved name or address, if it is this account's. Safe to repeat.
-- KEYS[1]  the key that reserves it
-- ARGV[1]  the account's id
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return 1
