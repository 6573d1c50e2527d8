#!lua flags=allow-oom
-- Reads whether an account is paused and its note, or sets both. A suspension is another matter: an
-- account's schedules start when neither is on. Safe to repeat with the same operation for a minute.
-- KEYS[1]  the shard's prefix
-- ARGV     account; to set them: operation, digest of what the caller read, the values of FIELDS
--          ('': none; of a pause's begin '1')
-- Returns  {verdict, digest, values}: DONE, CHANGED: they are others, UNKNOWN: no such account
--@include now
--@include lifecycle/place
--@include lifecycle/control
--@include operation
--@include settings
local FIELDS, PAUSED, UNTIL = {'note', 'paused', 'paused_until', 'paused_by'}, 2, 3
local prefix, account, operation = KEYS[1], ARGV[1], ARGV[2]
local base = prefix .. account .. ':'
local key = base .. K.ACCOUNT
if redis.call('EXISTS', key) == 0 then
  return {V.UNKNOWN, '', {}}
end
local before, ended = settings_of(key, FIELDS, PAUSED)
local digest = digest_of(before, #FIELDS)
if not operation or was_done(base, operation) then
  return {V.DONE, digest, before}
end
if digest ~= ARGV[3] then
  return {V.CHANGED, digest, before}
end
check_account(prefix, account)

write_settings(key, FIELDS, {unpack(ARGV, 4)})
if ARGV[3 + PAUSED] ~= '' then
  redis.call('HSET', key, 'paused', before[PAUSED] ~= '' and before[PAUSED] or now_ms)
  stop_account(prefix, account)
  time_pause(prefix, account, tonumber(ARGV[3 + UNTIL]))
elseif ended or before[PAUSED] ~= '' then
  end_pause(prefix, account, ended or now_ms)
end
note_done(base, operation, 60000)
local after = settings_of(key, FIELDS, PAUSED)
return {V.DONE, digest_of(after, #FIELDS), after}
