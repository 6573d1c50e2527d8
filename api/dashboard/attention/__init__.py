"""Needs attention: what Overview tells an account holder first, and System operators."""
