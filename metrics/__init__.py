"""What a process tells of itself: metrics and health, on a port of their own."""
