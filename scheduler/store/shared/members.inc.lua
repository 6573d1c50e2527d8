-- Commands on many members, in as few calls as Lua's stack allows.
local function each_thousand(command, key, members)
  for i = 1, #members, 1000 do
    redis.call(command, key, unpack(members, i, math.min(i + 999, #members)))
  end
end
