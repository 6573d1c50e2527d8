"""`postdate hold`, `resume`, `check` and `reseal`: an operator's commands about the whole store.
`backup` copies the embedded one, and `restore` decides what to do with all that a restored store
believes to be due."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from cli.acts import begin_hold, end_hold, noted
from cli.options import Context, command, with_store
from cli.output import Progress
from cli.parameters import moment
from cli.serving.data_dir import DataDir
from cli.serving.embedded import is_running
from scheduler.errors import PostdateError
from scheduler.events import Kind
from scheduler.times import format_iso8601, parse_iso8601

if TYPE_CHECKING:
    from scheduler.store import Store
    from scheduler.store.operators.reseal import Resealed
    from scheduler.store.operators.restore import Held

_FILES = "appendonlydir"
_MIB = 1 << 20


@click.command(name="hold")
@click.option("--status", is_flag=True, help="Only say whether it is on hold, and since when.")
@command()
def hold_command(context: Context, status: bool) -> None:
    """Stop all workers from claiming, until `postdate resume`.

    Schedules are accepted, changed and cancelled as usual; due ones wait, and fire late. Claimed
    ones end as usual. It holds for workers that start later, and through restarts of the store.
    """
    if status:
        held = with_store(
            context.settings, lambda store: store.hold.look(), read_only=True, needs_keys=False
        )
        _tell_status(context, held)
        return
    begun = with_store(context.settings, begin_hold, needs_keys=False)
    tell_hold(context, begun)


@click.command(name="resume")
@command()
def resume_command(context: Context) -> None:
    """Let workers claim due schedules again: ends `postdate hold`."""
    with_store(context.settings, end_hold, needs_keys=False)
    context.show({"onHoldSince": None}, "Resumed: workers claim due schedules again.")


def _tell_status(context: Context, held: Held) -> None:
    """JSON has the shards too: a command that was cut off leaves only some of them on hold."""
    since = None if held.since_ms is None else format_iso8601(held.since_ms)
    text = "Not on hold: workers claim due schedules."
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
    return f"On hold since {since}: workers claim nothing. `postdate resume` ends it."


@click.command(name="check")
@command()
def check_command(context: Context) -> None:
    """Read the whole store and report every broken invariant.

    For instance a ledger that does not balance, a schedule in the wrong set or in none, or a key
    that is damaged: nothing ends the look at the rest. Exit 1 if there is any. It changes nothing,
    and may run beside a working Postdate.
    """
    with Progress("Checking", shown=not context.as_json) as progress:
        problems = with_store(
            context.settings, lambda store: store.check(progress.add), read_only=True
        )
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
    """Seal the whole store with the newest key; forget the others.

    The newest key is the first in POSTDATE_SECRET_KEY, and must be the first in all running
    processes. The command seals what another key sealed or what is stored in clear, beside running
    APIs and workers. You can interrupt and repeat it. It forgets keys that seal nothing any more:
    then you can drop them. It exits 1 if anything is left.
    """
    if lost_keys and not yes:
        named = ", ".join(lost_keys)
        click.confirm(f"What only {named} opens stays unreadable. Forget it?", abort=True, err=True)

    async def reseal(store: Store) -> Resealed:
        about = f"forgets {', '.join(lost_keys)}" if lost_keys else ""
        async with noted(store, Kind.RESEAL, about=about):
            return await store.resealer.reseal(
                lambda done: progress.add(done.requests + done.answers - progress.count),
                lost_keys=lost_keys,
            )

    with Progress("Sealing again", shown=not context.as_json) as progress:
        done = with_store(context.settings, reseal, read_only=True, needs_keys=False)
    context.show(msgspec.to_builtins(done), "\n".join(_sentences(done)))
    if done.held or done.unreadable or done.kept:
        sys.exit(1)


def _sentences(done: Resealed) -> list[str]:
    counts = f"{done.requests:,} requests, {done.answers:,} answers"
    sentences = [f"{counts} and {done.secrets:,} signing secrets were sealed again."]
    sentences += [f"Key {each} is forgotten: drop it." for each in done.forgotten]
    sentences += [f"Key {each} must stay: {why}." for each, why in done.kept.items()]
    if done.held:
        sentences.append(f"{done.held:,} lie in clear, because workers hold them: repeat it soon.")
    sentences += [f"It cannot be read: {each}." for each in done.unreadable[:20]]
    return sentences


@click.command(name="backup")
@click.argument("directory", type=click.Path(path_type=Path, exists=False))
@command()
def backup_command(context: Context, directory: Path) -> None:
    """Copy the data dir's store to a new DIRECTORY.

    `postdate up --data-dir DIRECTORY` can start from it. The store may be running meanwhile:
    nothing in the copy is later than the moment printed, the --fired-since of a later `postdate
    restore`. For a store elsewhere use its own tools.
    """
    if context.settings.redis_url is not None:
        raise PostdateError("The store is not this data dir's: back it up with its own tools.")
    data_dir = DataDir(Path(context.settings.data_dir))
    if not (data_dir.path / _FILES).is_dir():
        raise PostdateError(f"There is no store in {data_dir.path}.")
    try:
        directory.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise PostdateError(f"{directory} cannot be made: {error.strerror}.") from None

    shown = not context.as_json

    async def copied(store: Store) -> int:
        async with store.system.rewrites_held_back():
            await asyncio.to_thread(_copy, data_dir, directory, shown=shown)
            await store.tick()
            return store.clock.now_ms()

    if is_running(data_dir):
        at_ms = with_store(
            msgspec.structs.replace(context.settings, redis_url=data_dir.url), copied
        )
    else:
        _copy(data_dir, directory, shown=shown)
        at_ms = time.time_ns() // 1_000_000
    at = format_iso8601(at_ms)
    context.show({"backup": str(directory), "at": at}, f"{directory} is a backup of {at}.")


def _copy(data_dir: DataDir, to: Path, *, shown: bool) -> None:
    files = data_dir.path / _FILES
    total = sum(each.stat().st_size for each in files.iterdir())

    def copy(source: str, copied: str) -> None:
        with Path(source).open("rb") as read, Path(copied).open("wb") as written:
            while data := read.read(_MIB):
                written.write(data)
                progress.add(len(data) // _MIB)
        shutil.copystat(source, copied)

    with Progress("MiB copied", max(total // _MIB, 1), shown=shown) as progress:
        shutil.copytree(files, to / _FILES, copy_function=copy)


@click.command(name="restore")
@click.option(
    "--fired-since",
    type=moment,
    required=True,
    help="When the backup was made: schedules due from then on may have been fired.",
)
@click.option(
    "--fired-until",
    type=moment,
    help="When workers stopped: schedules due later were not fired. [default: now]",
)
@click.option(
    "--expire", "how", flag_value="expire", help="End schedules that may have been fired, unsent."
)
@click.option("--fire", "how", flag_value="fire", help="Fire them, possibly a second time.")
@command()
def restore_command(
    context: Context, fired_since: str, fired_until: str | None, how: str | None
) -> None:
    """End or fire schedules that may have gone out since the backup.

    Run it after a restore, on hold, before `postdate resume`. A backup has the schedules that
    waited at its moment. Those fired since would go out again. --expire ends the ones due by
    --fired-until as failed, unsent; they are in the log, and can be replayed. --fire leaves them to
    the workers. Cancels, changes and creates since the backup are lost.
    """
    if how is None:
        raise click.UsageError("Say --expire or --fire.")
    since_ms = _moment_ms(fired_since)
    until_ms = None if fired_until is None else _moment_ms(fired_until)
    ways = {"expire": how == "expire", "shown": not context.as_json}
    answer = with_store(context.settings, lambda store: _restore(store, since_ms, until_ms, **ways))
    count = answer["expired" if how == "expire" else "due"]
    says = f"{count:,} may have been fired and were ended, unsent."
    if how == "fire":
        says = f"{count:,} may have been fired, and fire again."
    left = [f"It is damaged and was left as it is: {each}." for each in answer["damaged"]]
    context.show(answer, "\n".join([f"{says} `postdate resume` goes on.", *left]))
    if left:
        sys.exit(1)


def _moment_ms(text: str) -> int:
    try:
        return parse_iso8601(text)
    except ValueError as error:
        raise click.UsageError(f"{text!r} is {error}.") from error


async def _restore(
    store: Store, since_ms: int, until_ms: int | None, *, expire: bool, shown: bool
) -> dict[str, Any]:
    now_ms = store.clock.now_ms()
    until_ms = now_ms if until_ms is None else until_ms
    if not since_ms <= until_ms <= now_ms:
        raise PostdateError("--fired-since must come before --fired-until, and both before now.")
    held_since_ms = (await store.hold.look()).since_ms
    if held_since_ms is None:
        raise PostdateError("Workers may be firing: call `postdate hold` first.")
    newest_ms = await store.restore.last_entry_ms(held_since_ms)
    if newest_ms is not None and newest_ms > since_ms:
        raise PostdateError(
            f"The log goes on until {format_iso8601(newest_ms)}, so this is not a backup of"
            f" {format_iso8601(since_ms)}."
        )
    how = "expire" if expire else "fire"
    about = f"--{how}, due from {format_iso8601(since_ms)} to {format_iso8601(until_ms)}"
    async with noted(store, Kind.RESTORE, about=about):
        return await _decided(store, until_ms, expire=expire, shown=shown)


async def _decided(store: Store, until_ms: int, *, expire: bool, shown: bool) -> dict[str, Any]:
    await store.restore.take_back()
    if not expire:
        return {"due": await store.restore.due(until_ms), "damaged": store.restore.damaged}
    with Progress("Ending", shown=shown) as progress:
        await store.restore.expire(until_ms, progress.add)
    return {"expired": progress.count, "damaged": store.restore.damaged}
