"""The steps of a how-to page, run as a reader pastes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.processes import ROOT

_BLOCK = re.compile(r"^( *)```sh\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def steps_of(page: str, heading: str) -> list[str]:
    """The shell blocks below this heading."""
    text = (ROOT / "docs" / page).read_text().partition(f"\n## {heading}\n")[2]
    assert text, f"{page} has no heading {heading}"
    found = _BLOCK.findall(text.partition("\n## ")[0])
    return [re.sub(f"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def run(block: str, **variables: str) -> str:
    """What the block prints, pasted into a shell."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", block],
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
