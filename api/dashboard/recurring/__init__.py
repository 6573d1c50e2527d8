"""Recurring schedules: their list, each one's page, and the form that makes and changes them."""
