#!lua flags=allow-oom
-- Prolongs leases that are still those of the claims that the tokens name. Safe to repeat with the
-- new token among the old ones.
-- KEYS[1]  the shard's prefix
-- ARGV[1]  lease (ms)
-- ARGV[2]  the new token: when the leases are to end (us), by the caller's idea of our clock; not a
--          whole millisecond, as what waits stands at
-- ARGV[3…] for each schedule: account, schedule, token, attempt
-- Returns  {now (us), a code for each}: 1 prolonged, 0 no longer held by this token, -2 a key of
--          its account is damaged; no codes and nothing done if the new token is more than half a
--          lease (and a second) off
--@include now
--@include lifecycle/place
--@include lifecycle/token
--@include lifecycle/rows
local prefix, lease_ms = KEYS[1], tonumber(ARGV[1])
local lease_end = ARGV[2] / 1000
if math.abs(lease_end - now_ms - lease_ms) > math.max(lease_ms / 2, 1000) then
  return {now_us, {}}
end
check_heads(prefix)

-- One that waits again stands at a whole millisecond, which no token names.
return {now_us, by_account(3, 4, function(queue, held)
  local visible, tried = {}, {}
  for _, i in ipairs(held) do
    visible[#visible + 1], visible[#visible + 2] = lease_end, ARGV[i + 1]
    -- A request that was sent again at once has used up an attempt that the store had not seen.
    if tonumber(ARGV[i + 3]) > 1 then
      tried[#tried + 1], tried[#tried + 2] = ARGV[i + 1], ARGV[i + 3]
    end
  end
  hold(queue, visible, {}, tried)
  -- A lease that is shorter than the one before ends earlier than its account is to be looked at.
  look_at(prefix, queue.name, lease_end)
end)}
