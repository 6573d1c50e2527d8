-- The heads in front of a stored request, as `heads.py` puts them there. Scripts read in them what
-- no caller can know; callers say the rest in rows (`put.inc.lua`).

-- The lane, whether it is at-most-once, and when it expires (ms; 0: never); nil without a lane.
local function lane_of(stored)
  if string.byte(stored) ~= S.LANED then
    return nil
  end
  local last = 2 + string.byte(stored, 2)
  local once, a, b, c, d, e, f = string.byte(stored, last + 1, last + 7)
  local expires = ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
  return string.sub(stored, 3, last), once == 49, expires
end

-- Where the head of its rule begins, which is the last one, or else the request; its lane and
-- reference ('': none).
local function behind_names(stored)
  local at, reference, lane = 1, '', lane_of(stored) or ''
  if lane ~= '' then
    at = 10 + #lane
  end
  if string.byte(stored, at) == S.REFERRED then
    local last = at + 1 + string.byte(stored, at + 1)
    reference, at = string.sub(stored, at + 2, last), last + 1
  end
  return at, lane, reference
end

-- Whether it is the occurrence of a rule's slot.
local function has_slot(stored)
  local at = behind_names(stored)
  return string.byte(stored, at) == S.RECURRING
    and string.sub(stored, at + 27, at + 32) ~= string.rep('\0', 6)
end

-- Its lane, its reference, what these weigh (the same as `heads_weight` of heads.py), and the head
-- of its rule ('': none).
local function heads_of(stored)
  local at, lane, reference = behind_names(stored)
  local weighs = lane ~= '' and S.LANE_BYTES or 0
  if reference ~= '' then
    weighs = weighs + S.REFERENCE_BYTES + #reference + 27
  end
  local head = string.byte(stored, at) == S.RECURRING and string.sub(stored, at, at + 32) or ''
  return lane, reference, weighs, head
end

-- A request without the head of a rule, with this one.
local function with_recurring(request, head)
  if head == '' then
    return request
  end
  local at = behind_names(request)
  return string.sub(request, 1, at - 1) .. head .. string.sub(request, at)
end
