-- The head of an occurrence in front of its stored request, as `heads.py` puts it there. It is the
-- last one.

-- The place where it begins, or where the request does if there is none.
local function behind_names(stored)
  local at = 1
  if string.byte(stored) == S.LANED then
    at = 10 + string.byte(stored, 2)
  end
  if string.byte(stored, at) == S.REFERRED then
    at = at + 2 + string.byte(stored, at + 1)
  end
  return at
end

-- A stored request, without a head of this kind, with the one that another has, if any.
local function as_occurrence_of(request, other)
  local from = behind_names(other)
  if string.byte(other, from) ~= S.RECURRING then
    return request
  end
  local at, head = behind_names(request), string.sub(other, from, from + 32)
  return string.sub(request, 1, at - 1) .. head .. string.sub(request, at)
end
