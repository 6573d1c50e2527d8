"""The way to the store: connections, scripts and commands, and their failures as StoreErrors."""

from scheduler.store.server.line import Argument
from scheduler.store.server.scripts import Script
from scheduler.store.server.server import Server, Way, flat, pairs

__all__ = ["Argument", "Script", "Server", "Way", "flat", "pairs"]
