#!lua flags=no-writes
-- Reads on in an account's log, or along one of its index streams.
-- KEYS[1]  the account's prefix
-- ARGV     the stream below that prefix; '1' to read downwards or '0'; where to begin and to end, as
--          XRANGE or XREVRANGE have it; how many entries are enough; how many bytes; most chunks to
--          look at; a URL's digest that an index entry must have ('': any); a part that a chunk
--          must have, in small letters ('': any)
-- Returns  {the last chunk looked at ('': there are no more), how many were looked at, how many bytes
--          of them, id, chunk, id, chunk, …}
--@include log/chunk
local base, stream, down = KEYS[1], ARGV[1], ARGV[2] == '1'
local start, stop = ARGV[3], ARGV[4]
local entries, bytes, chunks = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local digest, part, indexed = ARGV[8], ARGV[9], stream ~= K.LOG
local found, step = {'', 0, 0}, 4

-- Whether the digests that an index entry carries have the one that is looked for.
local function wanted(digests)
  for i = 1, #digests, #digest do
    if string.sub(digests, i, i + #digest - 1) == digest then
      return true
    end
  end
  return digests == ''
end

local function logged_chunk(id, field)
  if not indexed then
    return field
  end
  if digest ~= '' and not wanted(field) then
    return nil
  end
  local logged = redis.call('XRANGE', base .. K.LOG, id, id)[1]
  return logged and logged[2][2] -- it may have been trimmed
end

-- What has not the part counts by its bytes: looking at them is what costs.
local function chunk_of(id, field)
  local chunk = logged_chunk(id, field)
  if chunk and part ~= '' and not string.find(string.lower(chunk), part, 1, true) then
    bytes = bytes - #chunk
    return nil
  end
  return chunk
end

while true do
  local page = redis.call(down and 'XREVRANGE' or 'XRANGE', base .. stream, start, stop,
    'COUNT', step)
  for _, entry in ipairs(page) do
    local id, chunk = entry[1], chunk_of(entry[1], entry[2][2])
    chunks = chunks - 1
    if chunk then
      found[#found + 1], found[#found + 2] = id, chunk
      entries, bytes = entries - entries_in(chunk), bytes - #chunk
    end
    found[2], found[3] = ARGV[7] - chunks, ARGV[6] - bytes
    if entries <= 0 or bytes <= 0 or chunks <= 0 then
      found[1] = id
      return found
    end
  end
  if #page < step then
    return found
  end
  start = '(' .. page[#page][1]
  step = math.min(32, 2 * step)
end
