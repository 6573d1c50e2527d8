"""`postdate`, but names are asked of the server that ATTACK_NAMES says."""

from __future__ import annotations

import os

from cli.main import main
from worker import firer
from worker.resolver import SystemResolver

if __name__ == "__main__":
    firer.SystemResolver = lambda: SystemResolver([os.environ["ATTACK_NAMES"]])  # type: ignore[misc,assignment]
    main()
