"""Recurring schedules: rules, each of which has one occurrence waiting at a time."""
