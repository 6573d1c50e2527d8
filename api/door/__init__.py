"""Connections until a request is known to be good: HTTP, limits, refusals, turns."""
