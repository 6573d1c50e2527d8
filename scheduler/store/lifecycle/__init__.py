"""From a schedule's creation to its end: every script that moves it, and its callers."""
