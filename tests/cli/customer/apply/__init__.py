"""`postdate apply`."""
