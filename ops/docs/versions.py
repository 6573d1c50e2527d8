"""Builds the site of all versions, as it is published.

    python -m ops.docs.versions --output build/site --base /postdate

The newest tag `v0.2.…` becomes `0.2/`, the checkout `main/`, and the newest version also `latest/`,
to which the root leads. Each is built by its own `ops/docs`. Versions without one are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ops.docs.pages import ROOT

_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_INDEX = """<!doctype html>
<html lang="en"><title>Postdate</title><meta http-equiv="refresh" content="0; url=latest/">
<a href="latest/">Postdate's documentation</a></html>
"""


def newest(tags: list[str]) -> dict[str, str]:
    """The last tag of each version (`0.2`), the newest version last."""
    found = [tuple(map(int, match.groups())) for tag in tags if (match := _TAG.fullmatch(tag))]
    return {
        f"{major}.{minor}": f"v{major}.{minor}.{patch}" for major, minor, patch in sorted(found)
    }


def build_all(output: Path, base: str) -> list[str]:
    """The names of the versions. A page with a fault raises CalledProcessError."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    built = []
    for name, tag in reversed(newest(_git("tag", "--list", "v*").split()).items()):
        with tempfile.TemporaryDirectory() as directory:
            checkout = Path(directory, "checkout")
            _git("worktree", "add", "--detach", str(checkout), tag)
            try:
                if (checkout / "ops/docs").is_dir():
                    _build(checkout, output / name, name, tag)
                    built.append(name)
            finally:
                _git("worktree", "remove", "--force", str(checkout))
    _build(ROOT, output / "main", "main", "main")
    built.append("main")
    latest = output / "latest"
    shutil.copytree(output / built[0], latest)
    (output / "versions.json").write_text(json.dumps(built))
    (output / "index.html").write_text(_INDEX)
    # GitHub shows this one at every address without a page, so that its links need the whole path.
    head = f'<head><base href="{base}/latest/">'
    (output / "404.html").write_text((latest / "404.html").read_text().replace("<head>", head, 1))
    return built


def _build(checkout: Path, output: Path, version: str, ref: str) -> None:
    command = [sys.executable, "-m", "ops.docs", "--output", str(output)]
    environment = {**os.environ, "DOCS_VERSION": version, "DOCS_REF": ref}
    subprocess.run(command, cwd=checkout, env=environment, check=True)
    shutil.rmtree(output.with_name(f"{output.name}-source"))


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "build/site")
    parser.add_argument("--base", default="", help="the path of the site at its host")
    options = parser.parse_args()
    print("Built:", *build_all(options.output.resolve(), options.base.rstrip("/")))


if __name__ == "__main__":
    main()
