"""The door that speaks QStash."""
