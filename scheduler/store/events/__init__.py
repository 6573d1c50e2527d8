"""Events, in bounded streams: the service's, operators' acts, and an account's own."""
