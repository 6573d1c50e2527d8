"""Schedules as their owners see them: how they are stored, created, listed, changed, cancelled."""
