"""Bulk actions: each API process goes on with those that are due."""
