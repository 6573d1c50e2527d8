-- A chunk of packed entries, as msgpack has an array.
local function packed_chunk(entries)
  local head = string.char(0x90 + #entries % 16)
  if #entries > 15 then
    head = string.char(0xdc, math.floor(#entries / 256), #entries % 256)
  end
  return head .. table.concat(entries)
end

-- How many entries a chunk of the log counts as: those in it, or one for each 512 bytes, so that
-- long URLs do not make a log ten times as large.
local function counted_entries(entries, chunk)
  return math.max(entries, math.ceil(#chunk / 512))
end

-- How many entries a chunk has: the length of a msgpack array. Other bytes count as one.
local function entries_in(chunk)
  local head, high, low = string.byte(chunk, 1, 3)
  if not head or (head >= 0xa0 and not low) then
    return 1
  end
  if head < 0xa0 then
    return math.max(1, head - 0x90)
  end
  return high * 256 + low
end
