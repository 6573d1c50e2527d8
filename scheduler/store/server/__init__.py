"""The way to the store: connections, scripts and reads, and their failures as StoreErrors."""

from scheduler.store.server.server import Argument, Script, Server, flat

__all__ = ["Argument", "Script", "Server", "flat"]
