"""Reports of ended schedules: pending, claimed, sent, repeated."""
