#!lua flags=allow-oom
-- Looks up the holders of API keys, and counts each request against its account's rate: GCRA, a
-- leaky bucket that keeps the moment up to which the account has paid
-- (https://brandur.org/rate-limiting), with a burst of a second's worth. Notes a key's use at most
-- once a minute. A repeat counts twice.
-- KEYS[1]  the shard's prefix
-- ARGV     how many plans have a rate; for each of these: plan, requests a second; SHA-256 of keys
-- Returns  for each key {account, key id, plan, '1' if the account is suspended, else ''; if the
--          plan has a rate also limit, remaining, until full (s), until allowed (s; 0: it is)}; {}
--          if it is unknown or inactive; {account} ('': unknown) if it is damaged
--@include now
--@include number
local prefix = KEYS[1]
local rates, first = {}, 2 + 2 * ARGV[1]
for i = 2, first - 1, 2 do
  rates[ARGV[i]] = tonumber(ARGV[i + 1])
end
local paid_until = {} -- rate key -> us
local used = {} -- keys whose use the end of the script notes

-- Until when (us) an account has paid: at most a second from now, as the clock may be set back.
local function read_paid_until(key)
  local before = paid_until[key] or tonumber(redis.call('GET', key) or 0)
  if not before or not (before >= now_us) then
    return now_us
  end
  return math.min(before, now_us + 1000000)
end

local function count(key, rate)
  local before = read_paid_until(key)
  local after = before + 1000000 / rate
  local wait_us = after - 1000000 - now_us
  if wait_us > 0.5 then
    paid_until[key] = before
    return {rate, 0, math.ceil((before - now_us) / 1000000), math.ceil(wait_us / 1000000)}
  end
  paid_until[key] = after
  local remaining = math.floor((now_us + 1000000 - after) * rate / 1000000 + 0.001)
  return {rate, remaining, math.ceil((after - now_us) / 1000000), 0}
end

-- Raises if a key of the account is damaged.
local function caller_of(stored)
  local base = prefix .. stored[2] .. ':'
  local plan, suspended = unpack(redis.call('HMGET', base .. K.ACCOUNT, 'plan', 'suspended'))
  local caller = {}
  if plan then -- else the account is being deleted
    caller = {stored[2], stored[3], plan, suspended and '1' or ''}
  end
  if rates[plan] then
    for _, value in ipairs(count(base .. K.RATE, rates[plan])) do
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
for key, us in pairs(paid_until) do
  redis.call('SET', key, whole(us), 'PX', 2000)
end
return callers
