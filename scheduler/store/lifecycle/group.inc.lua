-- What the scripts share that settle what was claimed, an account's together. Needs `lifecycle/token`.

-- The list whose length stands at `i` of the arguments, and where what follows it begins.
local function list(i)
  local values = {}
  for k = i + 1, i + ARGV[i] do
    values[#values + 1] = ARGV[k]
  end
  return values, i + 1 + #values
end

-- The schedules of an account's rows, which begin at `first` and have so many values each, the token
-- second; a code for each: 1 held by its token, 0 ended, -1 neither; and whether
-- all are 1. Raises if `waiting` is damaged.
local function judge(base, first, width, size)
  local schedules, found, all, key = {}, {}, true, base .. K.SCHEDULE
  for k = first, first + width * (size - 1), width do
    schedules[#schedules + 1] = ARGV[k]
  end
  local scores = redis.call('ZMSCORE', base .. K.WAITING, unpack(schedules))
  for i, schedule in ipairs(schedules) do
    found[i] = 1
    if not names(ARGV[first + width * (i - 1) + 1], scores[i]) then
      found[i] = redis.pcall('HEXISTS', key .. schedule, 'o') == 1 and 0 or -1
      all = false
    end
  end
  return schedules, found, all
end

-- An account's codes among all: where not all can be recorded, none is, and it is to be repeated.
local function tell(codes, found, all)
  for _, code in ipairs(found) do
    codes[#codes + 1] = (code == 1 and not all) and 2 or code
  end
end

-- Settles an account's schedules with `record`, which returns a code for each and whether all are 1.
-- `record` raises before its first write if a key is damaged: this parks the account, and each
-- schedule gets -2.
local function settle_account(codes, prefix, account, size, record)
  local sound, found, all = pcall(record)
  if not sound then
    park(prefix, account)
    found = {}
    for i = 1, size do
      found[i] = -2
    end
  end
  tell(codes, found, all)
end
