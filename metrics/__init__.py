"""Metrics and health of a process, on a port of their own."""
