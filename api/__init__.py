"""The HTTP API: what clients say to Postdate, and what it answers."""
