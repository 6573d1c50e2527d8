#!lua flags=allow-oom
-- Counts an account's searches in a leaky bucket. A repeat counts twice.
-- KEYS[1]  the account's prefix
-- ARGV     what it took (us), how much of it there may be in a second (us), the longest debt (us),
--          the burst: how far ahead of now (us) the work may be paid for
-- Returns  how long the account is to wait before it may look through more (ms); 0: it may
--@include shared/now
--@include shared/number
local key, spent_us = KEYS[1] .. K.SCANS, tonumber(ARGV[1])
-- A moment further ahead than any debt is from before the clock was set back.
local before = math.min(tonumber(redis.call('GET', key) or '0') or 0, now_us + ARGV[3])
local paid_until = math.max(before, now_us) + spent_us * 1000000 / ARGV[2]
if spent_us > 0 then
  redis.call('SET', key, whole(paid_until), 'PX', whole((paid_until - now_us) / 1000 + 1000))
end
return math.max(0, math.ceil((paid_until - now_us - ARGV[4]) / 1000))
