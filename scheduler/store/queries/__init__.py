"""Reads of schedules: by id, in lists, and dead letters."""
