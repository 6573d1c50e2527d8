"""The QStash-compatible door: calls of QStash, carried out by what the native calls call."""
