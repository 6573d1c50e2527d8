"""Schedules as workers see them: claimed under a lease, prolonged, given back, acked."""
