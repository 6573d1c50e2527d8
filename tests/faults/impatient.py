"""`postdate`, which waits a second for the store where it would wait some."""

from __future__ import annotations

from cli.main import main
from scheduler.store.server import connection, line, server

if __name__ == "__main__":
    line.REPLY_TIMEOUT_S = connection.REPLY_TIMEOUT_S = 1.0
    server._PATIENCE_S = connection._CONNECT_TIMEOUT_S = 1.0
    main()
