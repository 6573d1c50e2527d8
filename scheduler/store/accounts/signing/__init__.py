"""The secrets that an account's requests are signed with."""
