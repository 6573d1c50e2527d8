"""Makes three clients of the OpenAPI document, has their types judged, and uses each against a
running Postdate: `make clients`. It needs Node.js 20, and npm its registry."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from tests.generated.clients import CLIENTS
from tests.support.deployment import Deployment
from tests.support.receiver import Receiver


def main() -> int:
    if shutil.which("npm") is None:
        click.echo("make clients needs npm, which comes with Node.js: https://nodejs.org", err=True)
        return 1
    failed = 0
    with Deployment() as running, Receiver() as target:
        running.api()
        running.worker()
        customer = running.customer()
        for name, check in CLIENTS.items():
            with tempfile.TemporaryDirectory(prefix="pd-client-") as folder:
                try:
                    check(customer, Path(folder), f"{target.url}/{check.__name__}")
                except AssertionError as error:
                    failed += 1
                    click.echo(f"{name}: {error}", err=True)
                else:
                    click.echo(f"{name}: generated, its types hold, and it works")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
