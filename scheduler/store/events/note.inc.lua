-- Appends an event to a stream that keeps the newest `most`. An act does not fail for its mark: an
-- event that cannot be written is left out, and the error returned.
-- event: its fields by name, '' or nil where it has none: k kind, a account, w who, t about what, s
-- since (ms), u until (ms), o operation
local function note_event(key, most, event)
  local words = {}
  for _, name in ipairs({'k', 'a', 'w', 't', 's', 'u', 'o'}) do
    if event[name] and event[name] ~= '' then
      words[#words + 1], words[#words + 2] = name, event[name]
    end
  end
  return redis.pcall('XADD', key, 'MAXLEN', most, '*', unpack(words))
end

-- To an account's own stream; base: the account's prefix.
local function note_own(base, event)
  note_event(base .. K.EVENTS, K.MOST_OWN_EVENTS, event)
end

-- The fields of a stream's entry, by name.
local function event_of(entry)
  local event = {}
  for i = 1, #entry[2], 2 do
    event[entry[2][i]] = entry[2][i + 1]
  end
  return event
end
