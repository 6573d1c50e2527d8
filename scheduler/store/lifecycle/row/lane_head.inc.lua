-- The lane in front of a stored request, as `heads.py` puts it there.

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
