"""Requests: one timeline of what was executed and what waits, found, opened, and acted on."""
