#!lua flags=allow-oom
-- Recurring schedules of an account that are to be looked after, and that nobody would look after, are
-- due for that now. A damaged account stays as it is. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV     account, the recurring schedule behind which to begin ('': at the first), how many
-- Returns  {now (us), the last one that was looked at ('': there are no more)}
--@include shared/now
local prefix, account, most = KEYS[1], ARGV[1], tonumber(ARGV[3])
local base, due = prefix .. account .. ':', prefix .. K.RULES_DUE
local PAUSED, ENDED = '1', '3' -- of RULE_STATES

-- Whether a pause ends by itself. A damaged one is looked after too, which tells of it.
local function ends(pause)
  if not pause or pause == '' then
    return false
  end
  local sound, read = pcall(cmsgpack.unpack, pause)
  return not sound or type(read) ~= 'table' or type(read.until_ms) == 'number'
end

local function mend(rules)
  local members = {}
  for i, rule in ipairs(rules) do
    members[i] = account .. ':' .. rule
  end
  local looks = redis.call('ZMSCORE', due, unpack(members))
  local states = redis.call('ZMSCORE', base .. K.RULE_STATES, unpack(rules))
  for i, rule in ipairs(rules) do
    local is_at_rest = states[i] == PAUSED or states[i] == ENDED
    if not looks[i] and is_at_rest then
      -- An occurrence that waits is yet to be cancelled.
      local stored = redis.call('HMGET', base .. K.RULE .. rule, 'n', 'h')
      local has_none = not stored[1] or string.sub(stored[1], 1, 1) == ' '
      is_at_rest = has_none and not ends(stored[2])
    end
    if not looks[i] and not is_at_rest then
      redis.call('ZADD', due, now_ms, members[i])
    end
  end
end

local rules = redis.pcall('ZRANGE', base .. K.RULES, '(' .. ARGV[2], '+', 'BYLEX', 'LIMIT', 0, most)
if rules.err or #rules == 0 or redis.call('EXISTS', base .. K.ACCOUNT) == 0 then
  return {now_us, ''}
end
pcall(mend, rules)
return {now_us, #rules == most and rules[#rules] or ''}
