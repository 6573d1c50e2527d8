-- How many entries a chunk of the log has: the length of a msgpack array.
local function entries_in(chunk)
  local head, high, low = string.byte(chunk, 1, 3)
  if head < 0xa0 then
    return head - 0x90
  end
  return high * 256 + low
end
