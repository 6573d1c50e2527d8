-- Counts requests against an account's rate: GCRA, a leaky bucket that keeps the moment up to which
-- the account has paid (https://brandur.org/rate-limiting), with a burst of a second's worth.
-- Needs `now`.

--@include shared/number
-- Until when (us) an account has paid: at most a second from now, or `most_us`, as the clock may be
-- set back. name: its key, if it is another rate than that of requests. Raises if the key is
-- damaged.
local function read_paid_until(base, name, most_us)
  local before = tonumber(redis.call('GET', base .. (name or K.RATE)) or 0)
  if not before or not (before >= now_us) then
    return now_us
  end
  return math.min(before, now_us + (most_us or 1000000))
end

-- How an account stands: limit, remaining, until full (s), until allowed (s; 0: it is).
local function standing(paid_until, rate, wait_us)
  local left = math.floor((now_us + 1000000 - paid_until) * rate / 1000000 + 0.001)
  return {rate, wait_us > 0 and 0 or left, math.ceil((paid_until - now_us) / 1000000),
    math.ceil(wait_us / 1000000)}
end

-- Returns until when (us) is paid after one more request, if it is allowed, and the standing.
local function count(before, rate)
  local after = before + 1000000 / rate
  local wait_us = after - 1000000 - now_us
  if wait_us > 0.5 then
    return before, standing(before, rate, wait_us)
  end
  return after, standing(after, rate, 0)
end

local function write_paid_until(base, us, name, kept_ms)
  redis.call('SET', base .. (name or K.RATE), whole(us), 'PX', kept_ms or 2000)
end
