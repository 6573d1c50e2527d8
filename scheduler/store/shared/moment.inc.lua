-- A moment (ms) as six bytes, big-endian: how an ended schedule begins.
local function moment(ms)
  local bytes = {}
  for i = 6, 1, -1 do
    bytes[i] = string.char(ms % 256)
    ms = math.floor(ms / 256)
  end
  return table.concat(bytes)
end
