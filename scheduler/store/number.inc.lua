-- A whole number in digits, for a command: Redis 7.0 writes a zero that Lua negated as -0, which no
-- counter accepts, and Lua's own text of a number has 14 digits.
local function whole(number)
  return string.format('%.0f', number + 0)
end
