-- Shared by the scripts that prolong leases or give them back: rows of held schedules, unordered.
-- Needs `lifecycle/token`.

-- Of an account's rows, those whose token is good. Raises if a key is damaged that is read here or
-- written after.
local function held_among(queue, rows)
  local schedules, held = {}, {}
  for n, i in ipairs(rows) do
    schedules[n] = ARGV[i + 1]
  end
  check_queue(queue)
  local scores = redis.call('ZMSCORE', queue.waiting, unpack(schedules))
  for n, i in ipairs(rows) do
    if names(ARGV[i + 2], scores[n]) then
      held[#held + 1] = i
    end
  end
  return held
end

-- Calls `settle` for each account that has a row with a good token, with its queue and the places of
-- these rows; no write of `settle` can fail. The rows begin at `first` with account,
-- schedule, token, and have `width` values each. Returns a code for each row: 1 settled, 0 not held
-- by its token, -2 a key of its account is damaged.
local function by_account(first, width, settle)
  local accounts, codes = {}, {}
  for i = first, #ARGV, width do
    accounts[ARGV[i]] = accounts[ARGV[i]] or {}
    table.insert(accounts[ARGV[i]], i)
  end
  for account, rows in pairs(accounts) do
    local queue = queue_of(KEYS[1], account)
    local sound, held = pcall(held_among, queue, rows)
    for _, i in ipairs(rows) do
      codes[(i - first) / width + 1] = sound and 0 or -2
    end
    for _, i in ipairs(sound and held or {}) do
      codes[(i - first) / width + 1] = 1
    end
    if sound and #held > 0 then
      settle(queue, held)
    end
  end
  return codes
end
