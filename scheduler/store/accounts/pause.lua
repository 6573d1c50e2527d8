#!lua flags=allow-oom
-- Reads whether an account is paused, and the callback of schedules that name none, or sets both. A
-- suspension is another matter: an account's schedules start when neither is on. Safe to repeat with
-- the same operation for a minute.
-- KEYS[1]  the shard's prefix
-- ARGV     account; to set them: operation, digest of what the caller read, the values of FIELDS
--          ('': none; of a pause's begin '1') and of CALLBACK_FIELDS, who sets them, '1' if
--          the callback is another one
-- Returns  {verdict, digest, values}: DONE, CHANGED: they are others, UNKNOWN: no such account
--@include shared/now
--@include lifecycle/row/place
--@include lifecycle/row/control
--@include shared/operation
--@include shared/settings
--@include events/note
local FIELDS = {'paused', 'paused_until', 'paused_by', 'paused_note'}
local PAUSED, UNTIL, BY = 1, 2, 3
local CALLBACK_FIELDS = {'on', 'url'}
local prefix, account, operation = KEYS[1], ARGV[1], ARGV[2]
local base = prefix .. account .. ':'
local key = base .. K.ACCOUNT
if redis.call('EXISTS', key) == 0 then
  return {V.UNKNOWN, '', {}}
end
local callback_key = base .. K.CALLBACK
-- The URL stays when the callback is removed: those that wait for an attempt still go there.
local function settings()
  local values, ended = settings_of(key, FIELDS, PAUSED)
  local on, url = unpack(redis.call('HMGET', callback_key, unpack(CALLBACK_FIELDS)))
  values[#values + 1], values[#values + 2] = on or '', on and url or ''
  return values, digest_of(values, #values), ended
end
local before, digest, ended = settings()
if not operation or was_done(base, operation) then
  return {V.DONE, digest, before}
end
if digest ~= ARGV[3] then
  return {V.CHANGED, digest, before}
end
check_account(prefix, account)

write_settings(key, FIELDS, {unpack(ARGV, 4, 3 + #FIELDS)})
local on, url, who = ARGV[4 + #FIELDS], ARGV[5 + #FIELDS], ARGV[6 + #FIELDS]
if on ~= '' then
  redis.call('HSET', callback_key, 'on', on, 'url', url)
elseif before[1 + #FIELDS] ~= '' then
  redis.call('HDEL', callback_key, 'on')
end
if ARGV[7 + #FIELDS] == '1' then
  note_own(base, {k = 'callback-set', w = who, t = on ~= '' and on or 'none'})
end
if ARGV[3 + PAUSED] ~= '' then
  redis.call('HSET', key, 'paused', before[PAUSED] ~= '' and before[PAUSED] or now_ms)
  stop_account(prefix, account)
  time_pause(prefix, account, tonumber(ARGV[3 + UNTIL]))
  if before[PAUSED] == '' or before[UNTIL] ~= ARGV[3 + UNTIL] then
    local by = who ~= '' and who or ARGV[3 + BY]
    note_own(base, {k = 'account-paused', w = by, u = ARGV[3 + UNTIL]})
  end
elseif ended or before[PAUSED] ~= '' then
  end_pause(prefix, account, ended or now_ms)
  if not ended then
    note_own(base, {k = 'account-resumed', w = who, s = before[PAUSED]})
  end
end
note_done(base, operation)
local after, digest_after = settings()
return {V.DONE, digest_after, after}
