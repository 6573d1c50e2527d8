--@include lifecycle/reference
-- Takes up the reference of the last one in an account's `new`, if it has one.
refer = function(account, key, row)
  local reference, referred = reference_of(ARGV[row + 2]), account.referred or {}
  if not reference then
    return
  end
  referred[#referred + 1], referred[#referred + 2] = 0, reference .. '\0' .. ARGV[row]
  account.referred, account.weight = referred, account.weight + reference_weight(ARGV[row + 2])
  if account.met then
    local met = account.met[reference] or {}
    met[#met + 1] = {schedule = ARGV[row], key = key, place = #account.new - 1,
      due = ARGV[row + 1], size = #ARGV[row + 2]}
    account.met[reference] = met
  end
end
