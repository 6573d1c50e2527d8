"""The commands that serve, and the processes that they start."""
