-- An account's signing secrets: a list, the newest first, of `<id> <created> <until> <secret>`. The
-- moments are in ms; 0: no end. Behind them stand the two keys of the QStash door, if it was used: the
-- current one, then the next one.

local function is_of_door(entry)
  return string.sub(entry, 1, 4) == 'qsk_'
end

local function secret_entry(id, created, until_ms, secret)
  -- Not all in one format, which ends a secret at its first zero byte.
  return id .. string.format(' %.0f %.0f ', created, until_ms) .. secret
end
