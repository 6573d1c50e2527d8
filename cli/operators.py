"""`postdate hold`, `resume`, `check` and `reseal`: an operator's commands about the whole store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
import msgspec

from cli.options import Context, command, with_store
from scheduler.times import format_iso8601

if TYPE_CHECKING:
    from scheduler.store.operators.reseal import Resealed
    from scheduler.store.operators.restore import Held


@click.command(name="hold")
@click.option("--status", is_flag=True, help="Only say whether it is on hold, and since when.")
@command()
def hold_command(context: Context, status: bool) -> None:
    """Have no worker claim anything, until `postdate resume`.

    Schedules are accepted, changed and cancelled as ever; due ones wait, and fire late. Claimed
    ones end as usual. It holds for workers that start later, and through restarts of the store.
    """
    if status:
        held = with_store(
            context.settings, lambda store: store.hold.look(), read_only=True, needs_keys=False
        )
        _tell_status(context, held)
        return
    begun = with_store(context.settings, lambda store: store.hold.begin(), needs_keys=False)
    tell_hold(context, begun)


@click.command(name="resume")
@command()
def resume_command(context: Context) -> None:
    """Have workers claim due schedules again: ends `postdate hold`."""
    with_store(context.settings, lambda store: store.hold.end(), needs_keys=False)
    context.show({"onHoldSince": None}, "Resumed: what is due is claimed again.")


def _tell_status(context: Context, held: Held) -> None:
    """JSON has the shards too: a command that was cut off leaves only some of them on hold."""
    since = None if held.since_ms is None else format_iso8601(held.since_ms)
    text = "Not on hold: what is due is claimed."
    if since is not None:
        text = _on_hold(since)
    elif held.on_hold:
        text = (
            f"{held.on_hold} of {held.shards} shards are on hold, and the others are not: repeat"
            " `postdate hold` or `postdate resume`, which was cut off."
        )
    answer = {"onHoldSince": since, "shardsOnHold": held.on_hold, "shards": held.shards}
    context.show(answer, text)


def tell_hold(context: Context, since_ms: int) -> None:
    since = format_iso8601(since_ms)
    context.show({"onHoldSince": since}, _on_hold(since))


def _on_hold(since: str) -> str:
    return f"On hold since {since}: nothing is claimed. `postdate resume` goes on."


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
        lambda store: store.resealer.reseal(_tell_walked, lost_keys=lost_keys),
        read_only=True,
        needs_keys=False,
    )
    context.show(msgspec.to_builtins(done), "\n".join(_sentences(done)))
    if done.held or done.unreadable or done.kept:
        sys.exit(1)


def _tell_walked(done: Resealed) -> None:
    click.echo(f"{done.requests:,} requests sealed anew; looking once more.", err=True)


def _sentences(done: Resealed) -> list[str]:
    counts = f"{done.requests:,} requests, {done.answers:,} answers"
    sentences = [f"{counts} and {done.secrets:,} signing secrets were sealed anew."]
    sentences += [f"Key {each} is forgotten: drop it." for each in done.forgotten]
    sentences += [f"Key {each} must stay: {why}." for each, why in done.kept.items()]
    if done.held:
        sentences.append(f"{done.held:,} lie in clear, because workers hold them: repeat it soon.")
    sentences += [f"It cannot be read: {each}." for each in done.unreadable[:20]]
    return sentences
