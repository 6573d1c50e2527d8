"""`postdate check`: what must hold in the store, read and compared."""
