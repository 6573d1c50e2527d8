-- `references` lists an account's schedules that have not ended by reference, then by id, for those
-- that have one. It has nothing to do with when they are due.

--@include lifecycle/row/lane_head
-- Where the reference's head or the request begins behind it; 1 without a lane.
local function behind_lane(stored)
  return string.byte(stored) == S.LANED and 10 + string.byte(stored, 2) or 1
end

-- The reference in front of a stored request, as `heads.py` puts it there; nil if there is none.
reference_of = function(stored)
  local at = behind_lane(stored)
  if string.byte(stored, at) == S.REFERRED then
    return string.sub(stored, at + 2, at + 1 + string.byte(stored, at + 1))
  end
end

-- Weight of the members that a stored request's reference and lane need; 0 without either.
reference_weight = function(stored)
  local at = behind_lane(stored)
  local weight = at > 1 and S.LANE_BYTES or 0
  if string.byte(stored, at) == S.REFERRED then
    return weight + S.REFERENCE_BYTES + string.byte(stored, at + 1) + 27
  end
  return weight
end
