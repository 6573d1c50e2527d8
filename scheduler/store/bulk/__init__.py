"""Bulk actions: what one was to do, how far it is, and who goes on with it."""
