"""The command `postdate`, where it is installed.

A wheel has the top folders of the repository (`api`, `cli`, `metrics`, `scheduler`, `worker`) in
this one, for modules of these names are in many a site-packages. Only processes of Postdate find
them: they begin here.
"""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).parent


def main() -> None:
    if (_HERE / "cli").is_dir():  # in a checkout it lies beside this folder
        sys.path.insert(0, str(_HERE))
    from cli.main import main as command

    command()
