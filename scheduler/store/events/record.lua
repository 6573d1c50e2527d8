#!lua flags=allow-oom
-- Notes an event. Safe to repeat with the same operation while fewer than 20 others come between.
-- KEYS[1]  the stream
-- ARGV     how many it keeps, operation, '1': of those of its kind that it overlaps, it makes one;
--          kind, account, who, about, since (ms), until (ms), '' for what it has not
-- Returns  'OK', or raises
--@include events/note
local key = KEYS[1]
local event = {o = ARGV[2], k = ARGV[4], a = ARGV[5], w = ARGV[6], t = ARGV[7], s = ARGV[8],
  u = ARGV[9]}
local merged = {}
for _, entry in ipairs(redis.call('XREVRANGE', key, '+', '-', 'COUNT', 20)) do
  local before = event_of(entry)
  if before.o == event.o then
    return 'OK'
  end
  local at_ms = tonumber(string.match(entry[1], '^%d+'))
  if ARGV[3] == '1' and before.k == event.k and at_ms >= tonumber(event.s) then
    merged[#merged + 1] = entry[1]
    if tonumber(before.s or at_ms) < tonumber(event.s) then
      event.s = before.s
    end
  end
end

if #merged > 0 then
  redis.call('XDEL', key, unpack(merged))
end
local reply = note_event(key, ARGV[1], event)
return type(reply) == 'table' and reply.err and reply or 'OK'
