#!lua flags=allow-oom
-- Notes that a process is alive, and lists those that are. Lost ones stay in the hash for a while,
-- unless too many do. Heartbeats from the future are from before the clock was set back, and
-- dropped. Notes once that a process came, went, was lost and came back: a lost one has a second
-- space behind when it was heard of.
-- KEYS[1]  the hash of its role
-- ARGV     process id, what it says of itself (JSON; '': good-bye), silence after which one is lost
--          (ms), and forgotten (ms), most lost ones, the stream of events in the same slot ('':
--          none is noted), '1': it was heard of for long enough to tell who is lost
-- Returns  {now (us), how many came from the future, process, "<heard at (ms)> <JSON>", …}
--@include shared/now
--@include events/note
local SEEN_LOST = '^%d+  '
local id, says, stream = ARGV[1], ARGV[2], ARGV[6]
local before = redis.call('HGET', KEYS[1], id)
-- After an outage all others seem to be lost to the first one that is heard of.
local silent_ms = now_ms - tonumber(string.match(before or '', '^%d+') or 0)
local steady = ARGV[7] == '1' and silent_ms <= ARGV[3] / 2

-- What operators know a process by.
local function label(said)
  local version = string.match(said, '"version":"([^"]*)"')
  return (string.match(said, '"host":"([^"]*)"') or id) .. ' '
    .. (string.match(said, '"pid":(%d+)') or '') .. (version and ', ' .. version or '')
end
local function note(kind, said, since_ms)
  if stream ~= '' then
    note_event(stream, K.MOST_SERVICE_EVENTS, {k = kind, t = label(said), s = since_ms})
  end
end

if says == '' then
  redis.call('HDEL', KEYS[1], id)
  if before then
    note('worker-stopped', before)
  end
else
  redis.call('HSET', KEYS[1], id, now_ms .. ' ' .. says)
  if not before then
    note('worker-started', says)
  elseif string.find(before, SEEN_LOST) then
    note('worker-back', says, string.match(before, '^%d+'))
  end
end
local alive, lost, others = {now_us, 0}, {}, false
local version = string.match(says, '"version":"[^"]*"')
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local silent_ms = now_ms - tonumber(string.match(all[i + 1], '^%d+') or 0)
  if silent_ms < -1000 then
    redis.call('HDEL', KEYS[1], all[i])
    alive[2] = alive[2] + 1
  elseif silent_ms <= tonumber(ARGV[3]) then
    alive[#alive + 1] = all[i]
    alive[#alive + 1] = all[i + 1]
    others = others or string.match(all[i + 1], '"version":"[^"]*"') ~= version
  else
    lost[#lost + 1] = {silent_ms, all[i]}
    if steady and not string.find(all[i + 1], SEEN_LOST) then
      redis.call('HSET', KEYS[1], all[i], (string.gsub(all[i + 1], ' ', '  ', 1)))
      note('worker-lost', all[i + 1], string.match(all[i + 1], '^%d+'))
    end
  end
end
if others and not before and says ~= '' then
  note('other-version', says)
end
table.sort(lost, function(a, b) return a[1] < b[1] end)
for i, each in ipairs(lost) do
  if each[1] > tonumber(ARGV[4]) or i > tonumber(ARGV[5]) then
    redis.call('HDEL', KEYS[1], each[2])
  end
end
return alive
