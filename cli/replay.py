"""`postdate replay`: what has ended, once more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from cli.output import fail
from cli.parameters import Duration
from cli.remote import Remote, remote_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postdate import PostdateError, Replayed

_COUNTED = 1000


@click.command(name="replay")
@click.argument("schedule_ids", metavar="[ID...]", nargs=-1)
@click.option("--failed", is_flag=True, help="All that failed and were not replayed yet.")
@click.option(
    "--since", type=Duration(), metavar="DURATION", help="Of these, what failed so long ago: 1h."
)
@click.option("--target", metavar="URL", help="Of these, what was sent there.")
@click.option("--limit", type=click.IntRange(min=1), help="Of these, the oldest so many.")
@click.option("--yes", is_flag=True, help="Do not ask before --failed.")
@click.option("--idempotency-key", metavar="KEY", help="Repeating with it replays nothing twice.")
@remote_command
def replay_command(
    remote: Remote,
    schedule_ids: tuple[str, ...],
    failed: bool,
    since: timedelta | None,
    target: str | None,
    limit: int | None,
    yes: bool,
    idempotency_key: str | None,
) -> None:
    """Replay schedules that have ended: each a new one of the same request, due now, for a credit.

    \b
    postdate replay sch_01m7td70g0fw3s9s2m2v2v2v2v
    postdate replay --failed --since 1h
    """
    if failed == bool(schedule_ids) or (not failed and (since or target or limit)):
        raise click.UsageError("Give ids, or --failed with --since, --target and --limit.")
    if not failed:
        done: Sequence[Any] = remote.client.replay_many(
            schedule_ids, idempotency_key=idempotency_key
        )
        _show(remote, done)
        return
    from_ = None if since is None else datetime.now(UTC) - since
    if not yes:
        _confirm(remote, limit, url=target, from_=from_)
    done = remote.client.replay_many(
        url=target, from_=from_, limit=limit, idempotency_key=idempotency_key
    )
    _show(remote, done)


def _confirm(remote: Remote, limit: int | None, **chosen: Any) -> None:
    most = _COUNTED if limit is None else min(limit, _COUNTED)
    found = sum(1 for _ in remote.client.list(status="failed", limit=most + 1, **chosen))
    if found:
        more = "more than " if found > most and most != limit else ""
        many = f"{more}{min(found, most):,}"
        click.confirm(f"Replay {many} that failed, for a credit each?", abort=True, err=True)


def _show(remote: Remote, done: Sequence[Replayed | PostdateError]) -> None:
    """A line for each; the exit status is 1 if one of them was not replayed."""
    remote.show([_as_json(each) for each in done], "\n".join(map(_line, done)) or "Nothing failed.")
    refused = [each for each in done if isinstance(each, Exception)]
    if refused:
        fail(f"{len(refused):,} of {len(done):,} could not be replayed", as_json=remote.as_json)


def _line(each: Replayed | PostdateError) -> str:
    if isinstance(each, Exception):
        return f"{each.schedule_id}  {each}"
    return f"{each.schedule_id}  Replay of {each.replay_of}"


def _as_json(each: Replayed | PostdateError) -> object:
    if isinstance(each, Exception):
        return {"replayOf": each.schedule_id, "code": each.status_code, "error": str(each)}
    return each
