-- The server's clock, the only one that counts: now_us in microseconds, now_ms in milliseconds.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.floor(now_us / 1000)
