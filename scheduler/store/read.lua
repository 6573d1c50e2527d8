#!lua flags=no-writes,allow-oom
-- Reads at one moment, where the server is too full for MULTI: Redis 7.0 queues nothing then.
-- KEYS[1]  the prefix of all that is read
-- ARGV     each command's number of words, and these
-- Returns  the replies, errors among them as values
local replies, at = {}, 1
while at <= #ARGV do
  local last = at + ARGV[at]
  replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, last))
  at = last + 1
end
return replies
