"""The store: everything that Postdate keeps, in Redis or Valkey."""

from scheduler.store.store import Store

__all__ = ["Store"]
