-- Replays of ended schedules, among the groups of a create.

-- Why the ended schedule of `key` cannot be replayed by a row; nil if it can.
local function fault(account, key, again, row)
  local ended = redis.pcall('HMGET', key, 'o', 'a')
  if ended.err then
    return V.DAMAGED
  elseif not ended[1] then
    return V.UNKNOWN -- it was forgotten since the caller read that it had ended
  elseif (ended[2] or account.originals[key]) and not again then
    return V.REPLAYED
  end
  local sound, why = pcall(of_names().refusal, account, row)
  return sound and why or not sound and V.DAMAGED or nil
end

-- The verdicts on a group of replays. originals: ended schedule's key -> new schedule; letters:
-- dead letters that go; named: those of them that have a reference, as they are listed by it;
-- earlier: keys to forget sooner.
add_replays = function(group)
  local account, verdicts = group.account, {}
  if not account.originals then
    account.originals, account.letters, account.named = {}, {}, {}
    account.earlier = {}
  end
  for n = 1, group.count do
    local new, row = keys[group.keys + n], group.first + 7 * n - 7
    local letter = ARGV[row + 6]
    local original = string.sub(letter, 1, 26)
    local key = account.base .. original
    local found = not there[new] and fault(account, key, group.is_again, row)
    if not there[new] and not found then
      add(account, new, row)
      if not account.originals[key]
        and forgotten_later(key, kept_until_ms, account.hours, letter_weight(letter)) then
        account.earlier[#account.earlier + 1] = key
      end
      account.originals[key] = ARGV[row]
      account.letters[#account.letters + 1] = letter
      if #letter > 26 then
        account.named[#account.named + 1] = string.sub(letter, 28) .. '\0' .. original
      end
    end
    verdicts[n] = string.char(found or V.DONE)
  end
  return table.concat(verdicts)
end
