"""Schedules created, kept, replaced, replayed and changed."""
