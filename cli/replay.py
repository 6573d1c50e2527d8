"""`postdate replay`: what has ended, once more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from cli.parameters import duration
from cli.remote import Remote, remote_command

_COUNTED = 1000


@click.command(name="replay")
@click.argument("schedule_ids", metavar="[ID...]", nargs=-1)
@click.option("--failed", is_flag=True, help="All that failed and were not replayed yet.")
@click.option("--since", type=duration, help="Of these, what failed so long ago: 1h.")
@click.option("--target", metavar="URL", help="Of these, what was sent there.")
@click.option("--limit", type=click.IntRange(min=1), help="Of these, the oldest so many.")
@click.option("--yes", is_flag=True, help="Do not ask before --failed.")
@click.option("--idempotency-key", metavar="KEY", help="Repeating with it replays nothing twice.")
@remote_command()
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
    """Replay schedules that have ended.

    Each becomes a new one of the same request, due now, for a credit.

    \b
    postdate replay sch_01m7td70g0fw3s9s2m2v2v2v2v
    postdate replay --failed --since 1h
    """
    if failed == bool(schedule_ids) or (not failed and (since or target or limit)):
        raise click.UsageError("Give ids, or --failed with --since, --target and --limit.")
    from_ = None if since is None else datetime.now(UTC) - since
    if failed and not yes:
        _confirm(remote, limit, url=target, from_=from_)
    done = remote.client.replay_many(
        schedule_ids or None,
        url=target,
        from_=from_,
        limit=limit,
        idempotency_key=idempotency_key,
    )
    remote.show_many(
        done, lambda each: f"Replay of {each.replay_of}", id_name="replayOf", was="replayed"
    )


def _confirm(remote: Remote, limit: int | None, **chosen: Any) -> None:
    most = _COUNTED if limit is None else min(limit, _COUNTED)
    found = sum(1 for _ in remote.client.list(status="failed", limit=most + 1, **chosen))
    if found:
        more = "more than " if found > most and most != limit else ""
        many = f"{more}{min(found, most):,}"
        click.confirm(f"Replay {many} that failed, for a credit each?", abort=True, err=True)
