"""A recurring schedule's next occurrence."""
