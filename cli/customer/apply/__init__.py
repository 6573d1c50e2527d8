"""`postdate apply`: lanes, recurring schedules and the account's callback, as a file says."""
