-- Notes of the answers to groups of a create: with the Idempotency-Key of each, for a repeat. A note
-- has a digest of the request (16 bytes), the verdicts, a 0 and what the caller keeps with it. One of
-- a call that took a credit weighs in the account's quota; of the others UNPAID_KEPT_MS and
-- `noted_until` bound how much there is.

-- How long an answer is noted that cost no credit, and the bytes for each row of those by
-- `on_existing.inc.lua`.
local UNPAID_KEPT_MS, PLACED_BYTES = 60000, 43
-- The verdict on a row of a later part, by its bytes.
local LATER = {[1] = string.char(V.LATER),
  [PLACED_BYTES] = string.char(V.LATER) .. string.rep(' ', 26) .. string.rep('0', 16)}

local function verdict_bytes(group)
  return group.is_upsert and PLACED_BYTES or 1
end

-- Whether a group makes its note, and does not fill in one that there is.
local function opens_note(group)
  return not is_later(group) or group.part.earlier ~= nil
end

-- The note as it is stored. For a part that fills it in: the verdicts on its rows there, if it is
-- the note of the same call; then `at` is where they begin, and `lasts` whether the note is kept for
-- as long as one of a call that took a credit.
local function read_note(group)
  if opens_note(group) then
    local known = redis.call('GET', group.once)
    return known and (#known >= 18 or error('DAMAGED', 0)) and known
  end
  local width, at = verdict_bytes(group), group.is_upsert and 17 or 16
  local first = at + group.part.of * width + 1
  local call = redis.call('GETRANGE', group.once, 0, 15)
    .. redis.call('GETRANGE', group.once, first, first + 15)
  if call ~= string.sub(group.keep, 1, 32) then
    return false -- it was forgotten meanwhile
  end
  group.at = at + group.part.before * width
  group.lasts = redis.call('PEXPIRETIME', group.once) > now_ms + UNPAID_KEPT_MS
  return redis.call('GETRANGE', group.once, group.at, group.at + group.count * width - 1)
end

-- The reply to a part with those of its rows that are noted already, because a repeat of its call
-- came meanwhile; nil: none is.
local function filled_before(group)
  local known = group.account.fills[group.once .. group.part.before] or group.known or ''
  local bytes = 0
  while bytes < #known and string.byte(known, bytes + 1) ~= V.LATER do
    bytes = bytes + verdict_bytes(group)
  end
  return bytes > 0 and string.char(V.DONE) .. (group.is_upsert and string.char(V.EACH) or '')
    .. string.sub(known, 1, bytes) or nil
end

-- The reply by the once-key; nil if the key is new.
local function asked_before(group)
  if not group.once then
    return nil
  elseif not opens_note(group) then
    return filled_before(group)
  end
  local noted = group.account.notes[group.once]
  local known = noted and noted[1] or group.known
  if not known then
    return nil
  end
  if string.sub(known, 1, 16) ~= string.sub(group.keep, 1, 16) then
    return string.char(V.KEY_REUSED)
  end
  return string.char(V.REPEATED) .. string.sub(known, 17)
end

-- Whether an account has one more note to pay for, if a group takes a credit.
local function adds_note(group)
  return group.once and (opens_note(group) or group.at and not group.lasts)
end

-- How many bytes the note of a group's answer has; without a once-key, of its own rows alone.
local function note_size(group)
  local rows = group.once and group.part and group.part.of or group.count
  return #group.keep + rows * verdict_bytes(group) + (group.is_upsert and 2 or 1)
end

-- Keeps a group's answer for so long (ms).
local function note_answer(group, verdicts, kept_ms)
  local account, rows = group.account, group.is_upsert and string.sub(verdicts, 2) or verdicts
  if opens_note(group) then
    local width = verdict_bytes(group)
    local later = string.rep(LATER[width], left_of(group) - #rows / width)
    account.notes[group.once] = {string.sub(group.keep, 1, 16)
      .. (group.is_upsert and string.char(V.EACH) or '')
      .. (group.part and group.part.earlier or '')
      .. rows .. later .. '\0' .. string.sub(group.keep, 17), now_ms + kept_ms}
  elseif group.at then
    account.fills[group.once .. group.part.before] = rows
    account.filled[#account.filled + 1] = {key = group.once, at = group.at, rows = rows,
      ends = not group.lasts and kept_ms > UNPAID_KEPT_MS and now_ms + kept_ms}
  end
end

local function write_notes(account)
  for key, note in pairs(account.notes) do
    redis.call('SET', key, note[1], 'PXAT', whole(note[2]))
  end
  for _, fill in ipairs(account.filled) do
    redis.call('SETRANGE', fill.key, whole(fill.at), fill.rows)
    if fill.ends then
      redis.call('PEXPIREAT', fill.key, whole(fill.ends))
    end
  end
end
