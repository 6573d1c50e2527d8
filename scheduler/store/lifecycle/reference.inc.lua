-- `references` lists an account's schedules that have not ended by reference, then by id, for those
-- that have one. It has nothing to do with when they are due.

-- The reference in front of a stored request, as `stored.py` puts it there; nil if there is none.
reference_of = function(stored)
  if string.byte(stored) == S.REFERRED then
    return string.sub(stored, 3, 2 + string.byte(stored, 2))
  end
end

-- Weight of the member of `references` for a stored request; 0 without a reference.
reference_weight = function(stored)
  if string.byte(stored) == S.REFERRED then
    return S.REFERENCE_BYTES + string.byte(stored, 2) + 27
  end
  return 0
end
