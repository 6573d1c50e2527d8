"""`postdate check`: is everything in the store as it must be?"""

from __future__ import annotations

import sys

import click

from cli.options import Context, command, with_store


@click.command(name="check")
@command()
def check_command(context: Context) -> None:
    """Read the whole store and report every broken invariant.

    For instance a ledger that does not balance, a schedule in the wrong set or in none, or a key
    that is damaged: nothing ends the look at the rest. Exit 1 if there is any. It changes nothing,
    and may run beside a working Postdate.
    """
    problems = with_store(context.settings, lambda store: store.check(), read_only=True)
    context.show({"problems": problems}, "\n".join(problems) or "Every invariant holds.")
    if problems:
        sys.exit(1)
