"""The heart of Postdate: what a schedule is, when it is due, and how the store keeps it."""
