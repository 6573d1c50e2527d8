"""Executions: the log and its order, and the statistics that come from it."""
