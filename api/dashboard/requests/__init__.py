"""Requests: one timeline of executed and waiting schedules, with search, panel and actions."""
