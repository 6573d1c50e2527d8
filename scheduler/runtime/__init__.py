"""What each process has: settings, clocks, the garbage collector."""
