-- Rules whose waiting occurrence is cancelled, in the step that does it: none waits then, and
-- `rules_due` has them to be looked after. Needs `end`.

-- Which these are: flat, the rule and its next version. Damaged ones, and all if `rules_due` is
-- damaged, stay as they are: `postdate check` finds them, and the schedule is cancelled.
read_rules = function(group)
  local found = {}
  if type(redis.pcall('ZCARD', prefix .. K.RULES_DUE)) ~= 'number' then
    return found
  end
  for i = 1, #group.occurrences, 2 do
    local schedule, rule = group.occurrences[i], group.occurrences[i + 1]
    local stored = redis.pcall('HMGET', group.base .. K.RULE .. rule, 'i', 'v')
    local counted, version = pcall(plus, stored[2], 1)
    if stored[1] == schedule and counted then
      found[#found + 1], found[#found + 2] = rule, whole(version)
    end
  end
  return found
end

let_go = function(group, rules)
  for i = 1, #rules, 2 do
    redis.call('HSET', group.base .. K.RULE .. rules[i], 'i', '', 'v', rules[i + 1])
    redis.call('ZADD', prefix .. K.RULES_DUE, now_ms, group.account .. ':' .. rules[i])
  end
end
