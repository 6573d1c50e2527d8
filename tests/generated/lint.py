"""Judges the OpenAPI document by the rules of Redocly and Spectral: `make lint-openapi`. It starts
no server. It needs Node.js 18, and npm its registry."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import click
import msgspec

from api.app import create_app
from scheduler.runtime.settings import Settings
from tests.generated.clients import HERE, install, program, run

_LINTERS = {
    "@redocly/cli": ("redocly", "lint", "--config", "redocly.yaml"),
    "@stoplight/spectral-cli": ("spectral", "lint", "--fail-severity=hint", "-r", "spectral.yaml"),
}


def main() -> int:
    if shutil.which("npm") is None:
        click.echo("make lint-openapi needs npm, which comes with Node.js", err=True)
        return 1
    os.environ["REDOCLY_SUPPRESS_UPDATE_NOTICE"] = "true"  # it would ask its maker for a newer one
    document = msgspec.json.encode(create_app(Settings()).state.document)
    with tempfile.TemporaryDirectory(prefix="pd-lint-") as name:
        folder = Path(name)
        (folder / "openapi.json").write_bytes(msgspec.json.format(document))
        try:
            install(folder, *_LINTERS)
        except AssertionError as error:
            # Npm 9 says `npm ERR!`.
            why = [line for line in str(error).splitlines() if line.lower().startswith("npm err")]
            click.echo(f"npm cannot install the linters: {''.join(why[:1])}", err=True)
            return 1
        return sum(_finds(folder, *words) for words in _LINTERS.values())


def _finds(folder: Path, linter: str, *words: str) -> bool:
    shutil.copy(HERE / f"{linter}.yaml", folder)
    try:
        run(folder, program(linter), *words, "openapi.json")
    except AssertionError as error:
        click.echo(error, err=True)
        return True
    click.echo(f"{linter}: nothing found")
    return False


if __name__ == "__main__":
    sys.exit(main())
