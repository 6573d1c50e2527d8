-- Whether the lease that ends at `score` (ms, as ZMSCORE gives it) is the one that a token names:
-- the moment (us) that its claim wrote, or several with a colon between, where a reply was lost and
-- it is not known which of them was written last.
local function names(token, score)
  if not score then
    return false
  end
  score = tonumber(score)
  local one = tonumber(token)
  if one then
    return one / 1000 == score
  end
  for each in string.gmatch(token, '%d+') do
    if tonumber(each) / 1000 == score then
      return true
    end
  end
  return false
end
