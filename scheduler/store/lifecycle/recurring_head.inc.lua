-- The rule in front of a stored request of its occurrences, as `heads.py` puts it there.

--@include lifecycle/lane_head
-- The rule, and the occurrence's slot (ms; 0: none); nil if it is no occurrence.
local function recurring_of(stored)
  local at = behind_lane(stored)
  if string.byte(stored, at) == S.REFERRED then
    at = at + 2 + string.byte(stored, at + 1)
  end
  if string.byte(stored, at) ~= S.RECURRING then
    return nil
  end
  local a, b, c, d, e, f = string.byte(stored, at + 27, at + 32)
  local slot = ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
  return string.sub(stored, at + 1, at + 26), slot
end
