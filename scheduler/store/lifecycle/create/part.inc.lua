-- Parts of a large group: calls of their own, one after the other, so that each script is short. The
-- first one is judged for all of them. In the group's note, a verdict LATER stands for each row that
-- comes later; the further parts fill in theirs.
-- A part is a JSON object: `before`, how many rows of the group come before it, and `of`, how many
-- there are; in the first, `weights`, of each row that comes later (bytes), and `lanes`, the names
-- of theirs; in a further one, `earlier`, the verdicts before it, if none of these is noted.

local function part_of(packed)
  return packed ~= '' and cjson.decode(packed) or nil
end

local function is_later(group)
  return group.part ~= nil and group.part.before > 0
end

-- How many rows of the whole group come from here on.
local function left_of(group)
  return group.part and group.part.of - group.part.before or group.count
end

-- What the first part has to be judged for beside its own rows; nothing if it is stored already.
local function later_of(group, name)
  return group.part and not group.is_stored and group.part[name] or {}
end
