-- The settings of a lane, or an account's pause. Needs `now`.

--@include shared/number
-- The values of fields of a hash, '' for those that are not there, and when a pause ended (ms) that
-- has ended by itself, if it is still noted: it is none. Four of the fields are the pause's, from
-- `since` on: since, until, by, note.
local function settings_of(key, fields, since)
  local values = redis.call('HMGET', key, unpack(fields))
  for i = 1, #fields do
    values[i] = values[i] or ''
  end
  local ended
  local until_ms = number(values[since + 1] ~= '' and values[since + 1] or nil)
  if until_ms > 0 and until_ms <= now_ms then
    ended = until_ms
    for i = since, since + 3 do
      values[i] = ''
    end
  end
  return values, ended
end

-- A digest of the first so many values.
local function digest_of(values, count)
  return redis.sha1hex(table.concat(values, '\0', 1, count))
end

-- Writes values, and removes the fields of those that are ''.
local function write_settings(key, fields, values)
  local given, gone = {}, {}
  for i, field in ipairs(fields) do
    if values[i] == '' then
      gone[#gone + 1] = field
    else
      given[#given + 1], given[#given + 2] = field, values[i]
    end
  end
  if #given > 0 then
    redis.call('HSET', key, unpack(given))
  end
  if #gone > 0 then
    redis.call('HDEL', key, unpack(gone))
  end
end
