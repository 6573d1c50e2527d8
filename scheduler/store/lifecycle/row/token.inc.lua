-- Whether a token names the lease that ends at `score` (ms, as ZMSCORE gives it). A token is the
-- moment (us) that the claim wrote; or several with a colon between, if a reply was lost and any of
-- them may have been written last.
local function names(token, score)
  if not score then
    return false
  end
  -- Valkey writes most scores so. Making numbers of both texts is 5 % of an outcome.
  if score == string.sub(token, 1, -4) .. '.' .. string.sub(token, -3) then
    return true
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
