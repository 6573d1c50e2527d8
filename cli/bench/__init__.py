"""`postdate bench`: what this machine carries, measured on processes of its own."""
