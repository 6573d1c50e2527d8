"""Accounts: their ledger and keys, who signs in to them, and the sessions of who did."""
