#!lua flags=allow-oom
-- Begins an account's deletion: ends its keys, sessions, links, schedules and leases. Its data
-- stays for now. Safe to repeat.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  account
-- Returns  {schedules that had not ended, name, its other name ('': none)}; {}: no account
--@include shared/now
--@include accounts/sign_in/session
--@include lifecycle/row/place
--@include lifecycle/row/control
--@include lifecycle/callback/callbacks
local prefix, base = KEYS[1], KEYS[1] .. ARGV[1] .. ':'
local leaving = base .. K.LEAVING
if redis.call('EXISTS', base .. K.ACCOUNT) == 1 then
  check_account(prefix, ARGV[1])
  check_callbacks(callbacks_of(prefix, ARGV[1]))
  local unended = redis.call('ZCARD', base .. K.WAITING) + redis.call('ZCARD', base .. K.LANED)
  local members, sessions = redis.call('ZRANGE', base .. K.MEMBERS, 0, -1), {}
  members[#members + 1] = ''
  for n, member in ipairs(members) do
    sessions[n] = read_sessions(prefix, ARGV[1], member, '')
  end
  local rules = redis.call('ZRANGE', base .. K.RULES, 0, -1)
  redis.call('ZCARD', prefix .. K.RULES_DUE)

  redis.call('RENAME', base .. K.ACCOUNT, leaving)
  redis.call('HSET', leaving, 'unended', unended)
  for n, member in ipairs(members) do
    close_sessions(prefix, ARGV[1], member, sessions[n])
  end
  stop_account(prefix, ARGV[1])
  time_pause(prefix, ARGV[1], nil)
  clear_account(prefix, ARGV[1])
  clear_callbacks(prefix, ARGV[1])
  for n, rule in ipairs(rules) do
    rules[n] = ARGV[1] .. ':' .. rule
  end
  each_thousand('ZREM', prefix .. K.RULES_DUE, rules)
end
if redis.call('EXISTS', leaving) == 0 then
  return {}
end
local about = redis.call('HMGET', leaving, 'unended', 'name', 'also')
return {tonumber(about[1]), about[2], about[3] or ''}
