-- Notes of the answers to groups of a create: with the Idempotency-Key of each, for a repeat. A note
-- has a digest of the request (16 bytes), the verdicts, a 0 and what the caller keeps with it. One of
-- a call that took a credit weighs in the account's quota; of the others UNPAID_KEPT_MS and
-- `noted_until` bound how much there is.

-- How long an answer is noted that cost no credit, and the bytes for each row of those by
-- `on_existing.inc.lua`.
local UNPAID_KEPT_MS, PLACED_BYTES = 60000, 43

local function read_note(key)
  local known = redis.call('GET', key)
  return known and (#known >= 18 or error('DAMAGED', 0)) and known
end

-- The reply by the once-key; nil if the key is new.
local function asked_before(group)
  local noted = group.once and group.account.notes[group.once]
  local known = noted and noted[1] or group.known
  if not known then
    return nil
  end
  if string.sub(known, 1, 16) ~= string.sub(group.keep, 1, 16) then
    return string.char(V.KEY_REUSED)
  end
  return string.char(V.REPEATED) .. string.sub(known, 17)
end

-- How many bytes the note of a group's answer has.
local function note_size(group)
  local verdict_bytes = group.onto and 1 + group.count * PLACED_BYTES or group.count
  return #group.keep + verdict_bytes + 1
end

-- Keeps a group's answer for so long (ms).
local function note_answer(group, verdicts, kept_ms)
  group.account.notes[group.once] = {string.sub(group.keep, 1, 16) .. verdicts .. '\0'
    .. string.sub(group.keep, 17), now_ms + kept_ms}
end
