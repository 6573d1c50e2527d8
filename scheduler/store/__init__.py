"""The store: everything that Postdate keeps, in Redis or Valkey.

`Store.open(settings)` gives one to a process; what it can do is split by noun.
"""

from scheduler.store.store import Store

__all__ = ["Store"]
