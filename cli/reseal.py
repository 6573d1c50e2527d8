"""`postdate reseal`: seals everything anew with the newest key, so that those before can go."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import msgspec

from cli.options import Context, command, with_store

if TYPE_CHECKING:
    from scheduler.store.operators.reseal import Resealed


@click.command(name="reseal")
@click.option(
    "--forget",
    "lost_keys",
    multiple=True,
    metavar="KEY_ID",
    help="A key that is lost for good: forget it, though something is left that nobody can read.",
)
@click.option("--yes", is_flag=True, help="With --forget: do not ask.")
@command()
def reseal_command(context: Context, lost_keys: tuple[str, ...], yes: bool) -> None:
    """Seal all that is stored with the newest key, forget the others.

    The newest is the first in POSTDATE_SECRET_KEY, and has to be the first in all running
    processes. What another key sealed, or what lies in clear, is sealed anew, beside running APIs
    and workers; it may be interrupted and repeated. A key that nothing is left of is forgotten:
    then it can be dropped. Exit 1 if anything is left.
    """
    if lost_keys and not yes:
        named = ", ".join(lost_keys)
        click.confirm(f"What only {named} opens stays unreadable. Forget it?", abort=True, err=True)
    done = with_store(
        context.settings,
        lambda store: store.resealer.reseal(_tell, lost_keys=lost_keys),
        read_only=True,
        needs_keys=False,
    )
    context.show(msgspec.to_builtins(done), "\n".join(_sentences(done)))
    if done.held or done.unreadable or done.kept:
        sys.exit(1)


def _tell(done: Resealed) -> None:
    click.echo(f"{done.requests:,} requests sealed anew; looking once more.", err=True)


def _sentences(done: Resealed) -> list[str]:
    counts = f"{done.requests:,} requests, {done.answers:,} answers"
    told = [f"{counts} and {done.secrets:,} signing secrets were sealed anew."]
    told += [f"Key {each} is forgotten: drop it." for each in done.forgotten]
    told += [f"Key {each} must stay: {why}." for each, why in done.kept.items()]
    if done.held:
        told.append(f"{done.held:,} lie in clear, because workers hold them: repeat it soon.")
    told += [f"It cannot be read: {each}." for each in done.unreadable[:20]]
    return told
