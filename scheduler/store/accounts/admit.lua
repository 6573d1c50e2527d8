#!lua flags=allow-oom
-- Looks up the holders of API keys, and counts each request against its account's rate. Notes a
-- key's use at most once a minute. A repeat counts twice.
-- KEYS[1]  the shard's prefix
-- ARGV     how many plans have a rate; for each of these: plan, requests a second; SHA-256 of keys
-- Returns  for each key {account, key id, plan, '1' if the account is suspended, else ''; if the
--          plan has a rate also limit, remaining, until full (s), until allowed (s; 0: it is)}; {}
--          if it is unknown or inactive; {account} ('': unknown) if it is damaged
--@include shared/now
--@include shared/rate
local prefix = KEYS[1]
local rates, first = {}, 2 + 2 * ARGV[1]
for i = 2, first - 1, 2 do
  rates[ARGV[i]] = tonumber(ARGV[i + 1])
end
local paid_until = {} -- prefix of an account -> us
local used = {} -- keys whose use the end of the script notes

-- Raises if a key of the account is damaged.
local function caller_of(stored)
  local base = prefix .. stored[2] .. ':'
  local plan, suspended = unpack(redis.call('HMGET', base .. K.ACCOUNT, 'plan', 'suspended'))
  local caller = {}
  if plan then -- else the account is being deleted
    caller = {stored[2], stored[3], plan, suspended and '1' or ''}
  end
  if rates[plan] then
    local found
    paid_until[base], found = count(paid_until[base] or read_paid_until(base), rates[plan])
    for _, value in ipairs(found) do
      table.insert(caller, value)
    end
  end
  return caller
end

local callers = {}
for i = first, #ARGV do
  local key, sound = prefix .. K.API_KEY .. ARGV[i], true
  local stored, caller = redis.pcall('HMGET', key, 'active', 'account', 'id', 'used'), {}
  if stored.err then
    caller = {''}
  elseif stored[1] == '1' then
    sound, caller = pcall(caller_of, stored)
    if not sound then
      caller = {stored[2] or ''}
    elseif now_ms - (tonumber(stored[4] or 0) or 0) >= 60000 then
      used[#used + 1] = key
    end
  end
  table.insert(callers, caller)
end
for _, key in ipairs(used) do
  redis.call('HSET', key, 'used', now_ms)
end
for base, us in pairs(paid_until) do
  write_paid_until(base, us)
end
return callers
