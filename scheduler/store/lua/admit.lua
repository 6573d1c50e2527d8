#!lua flags=allow-oom
-- Tells who the holders of API keys are, as the store knows it at this moment, and notes that
-- they were used, at most once a minute each.
-- KEYS[1]  the shard's prefix
-- ARGV     SHA-256 of each key
-- Returns  for each {account, key id, plan}, or {} if it is unknown or inactive
--@include now
local prefix = KEYS[1]
local callers = {}
for i, hash in ipairs(ARGV) do
  local key = prefix .. 'apikey:' .. hash
  local stored = redis.call('HMGET', key, 'active', 'account', 'id', 'used')
  callers[i] = {}
  if stored[1] == '1' then
    local plan = redis.call('HGET', prefix .. stored[2] .. ':account', 'plan')
    callers[i] = {stored[2], stored[3], plan}
    if now_ms - tonumber(stored[4] or '0') >= 60000 then
      redis.call('HSET', key, 'used', now_ms)
    end
  end
end
return callers
