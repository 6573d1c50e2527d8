"""Claims of due schedules, and their leases."""
