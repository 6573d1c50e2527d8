"""The end of schedules: executed, failed, cancelled, expired."""
