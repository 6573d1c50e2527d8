"""The way to the store: connections, scripts and commands, and their failures as StoreErrors."""

from scheduler.store.server.server import Argument, Script, Server, Way, flat, pairs

__all__ = ["Argument", "Script", "Server", "Way", "flat", "pairs"]
