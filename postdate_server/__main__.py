"""`python -m postdate_server`: how Postdate starts its child processes."""

from __future__ import annotations

from postdate_server import main

main()
