-- Reading on in a set by score and id, from a place that need not exist any more: it is found by
-- bisection over the ranks.

-- How many members come before the place; or, `inclusive`, at it and before.
local function rank_of_place(set, place, inclusive)
  local low, high = 0, redis.call('ZCARD', set)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local member = redis.call('ZRANGE', set, middle, middle, 'WITHSCORES')
    local score, id = tonumber(member[2]), member[1]
    local before = score < place.ms or (score == place.ms and id < place.id)
    if before or (inclusive and score == place.ms and id == place.id) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- The next `most` members and their scores, flat. place: ms, id ('' comes before every id), and
-- whether to read down.
local function members(set, place, most)
  if place.down then
    local rank = rank_of_place(set, place, false)
    if rank == 0 then
      return {}
    end
    local first = redis.call('ZCARD', set) - rank
    return redis.call('ZRANGE', set, first, first + most - 1, 'REV', 'WITHSCORES')
  end
  local first = rank_of_place(set, place, true)
  return redis.call('ZRANGE', set, first, first + most - 1, 'WITHSCORES')
end
