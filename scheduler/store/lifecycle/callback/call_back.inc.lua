-- Which of the schedules that end are called back, in the step that ends them. They are kept until
-- their callback ends, so they weigh on. Needs `end`.

--@include lifecycle/callback/callbacks
-- How many bytes (at least 0) an account may still store, by the quotas of plans; `more`: what it
-- is about to weigh beside what it does.
local function free_bytes(base, quotas, more)
  local stored = redis.call('HMGET', base .. K.ACCOUNT, 'plan', 'bytes', 'settled')
  local most = stored[1] and cmsgpack.unpack(quotas)[stored[1]] or math.huge
  return math.max(0, most - stored_bytes(base, stored[2], stored[3]) - more)
end

-- The target's answers to a group's rows with a callback ('': none), by their places, by what the
-- rows say and by the account's default; nil: no row has one. And what the answers weigh. An end is
-- never refused for its answer: one that the quota has no room for, beside what it comes to weigh
-- without answers (`more`), is left out. Raises if a key is damaged.
read_callbacks = function(group, default, more)
  local wishes, found, bytes, free = {}, nil, 0, nil
  for i = 1, group.wishes and #group.wishes or 0, 2 do
    wishes[tonumber(group.wishes[i])] = group.wishes[i + 1]
  end
  group.wishes = wishes
  for i, outcome in ipairs(group.outcomes) do
    local wish = wishes[i] or 'd'
    local kind = string.sub(wish, 1, 1)
    if kind == '1' or default and (kind == 'a'
      or kind == 'd' and (default == 'executed' or has_failed(outcome))) then
      found = found or {}
      found[i] = ''
      if #wish > 1 then
        free = free or free_bytes(group.base, wishes[0], more)
        if bytes + #wish - 1 <= free then
          found[i], bytes = string.sub(wish, 2), bytes + #wish - 1
        end
      end
    end
  end
  if found then
    check_callbacks(callbacks_of(prefix, group.account))
  end
  return found, bytes
end

-- Takes what they weigh out of `hours`, which has them all.
keep_called = function(group, hours)
  local said, members = {}, {}
  for i = 1, #group.said, 2 do
    said[tonumber(group.said[i])] = answer_weight(#group.said[i + 1])
  end
  for _, member in ipairs(group.members or {}) do
    members[string.sub(member, -26)] = S.REFERENCE_BYTES + #member
  end
  for i in pairs(group.called) do
    local schedule = group.schedules[i]
    local size = redis.pcall('HSTRLEN', group.base .. schedule, 'r')
    local bytes = weight_of(tonumber(size) or 0) -- of a damaged one `end_fired` stops the group
    if has_failed(group.outcomes[i]) then
      bytes = bytes + (said[i] or 0) + (members[schedule] or 0)
      note_expiring(hours, -bytes, now_ms + failed_kept_ms)
    else
      note_expiring(hours, -bytes, now_ms + kept_ms)
    end
  end
end

call_back = function(group)
  local due = {}
  for i in pairs(group.called) do
    due[#due + 1], due[#due + 2] = now_ms + (group.wishes[-i] or 0), group.schedules[i]
  end
  await_callbacks(callbacks_of(prefix, group.account), {}, due)
end
