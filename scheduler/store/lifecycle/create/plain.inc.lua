-- Plain groups: schedules without names, of which batches consist. They come by columns, which makes
-- one argument a schedule instead of three: their ids and their triggerAts (ms), in msgpack as one
-- value, and then the packed request of each. Needs `put`.

-- Adds the keys of a group's schedules.
local function read_columns(group, keys)
  local base, last = group.account.base, group.keys
  group.schedules, group.dues = unpack(cmsgpack.unpack(ARGV[group.first]))
  group.first = group.first + 1
  for n, schedule in ipairs(group.schedules) do
    keys[last + n] = base .. schedule
  end
end

-- Takes up those that are not stored yet, in one loop: `take_plain` for each takes longer. Returns
-- how many of the group are stored then. there: by key.
local function take_columns(group, keys, there)
  local account, schedules, dues = group.account, group.schedules, group.dues
  local new, waiting, earliest, left = account.new, account.waiting, account.earliest, account.left
  local before, bytes, stored = #new, 0, group.count
  local last = before
  for n = 1, group.count do
    local key = keys[group.keys + n]
    if not there[key] then
      if left < 1 then
        stored = n - 1
        break
      end
      local request, due = ARGV[group.first + n - 1], dues[n]
      new[last + 1], new[last + 2] = key, request
      waiting[last + 1], waiting[last + 2] = due, schedules[n]
      last, left, bytes = last + 2, left - 1, bytes + #request
      if due < earliest then
        earliest = due
      end
    end
  end
  account.left, account.earliest = left, earliest
  account.weight = account.weight + weight_of(bytes, (last - before) / 2)
  return stored
end
