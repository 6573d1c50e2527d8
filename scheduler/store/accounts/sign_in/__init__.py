"""Sessions, one-time links, and attempts to sign in."""
