-- Adds a movement of credits to the rollup of its day, for `write`. Needs `now`.
-- base: the account's prefix; movement: 'granted', 'refunded' or 'spent', which is counted by hour.

--@include shared/number
local function moved_credits(base, movement, credits)
  if movement == 'spent' then
    movement = math.floor(now_ms / 3600000) % 24 .. R.CREATED
  end
  return added(base .. K.DAY .. math.floor(now_ms / 86400000), {movement}, {credits})
end
