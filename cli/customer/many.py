"""`postdate cancel` and `replay`: of schedules by their ids, or of all that match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from cli import parameters
from cli.customer.remote import Remote, remote_command
from scheduler.filters import FILTERS

if TYPE_CHECKING:
    from postdate import Cancelled

_COUNTED = 1000


# Without ids, one of these (or --failed) must be given.
CHOOSING = ("url", "lane", "reference", "recurring_id")
FLAGS = ", ".join(row.flag for row in FILTERS)
ALONE = "A period or a limit alone is not enough."


def choosing_options(from_help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in (
            click.option("--yes", is_flag=True, help="Do not ask before all that match."),
            click.option("--limit", type=click.IntRange(min=1), help="At most so many."),
            parameters.filter_options(from_help),
        ):
            function = option(function)
        return function

    return decorate


@click.command(name="cancel")
@click.argument("schedule_ids", metavar="[ID...]", nargs=-1)
@click.option(
    "--held",
    is_flag=True,
    default=None,
    help="Only due schedules that something keeps from starting.",
)
@choosing_options(" Only those due from then on.")
@remote_command()
def cancel_command(
    remote: Remote,
    schedule_ids: tuple[str, ...],
    limit: int | None,
    yes: bool,
    **chosen: Any,
) -> None:
    """Cancel waiting schedules, and get their credits back.

    Give ids, or options for all that match. A schedule that was attempted already is stopped: it
    ends as failed, and no credit comes back.

    \b
    postdate cancel sch_01m7td70g0fw3s9s2m2v2v2v2v
    postdate cancel --reference 'order-17-*'
    postdate cancel --lane customer-17
    postdate cancel --target https://example.com/hook --from 2026-12-24
    """
    matching = any(chosen[name] is not None for name in (*CHOOSING, "held"))
    if is_unclear(schedule_ids, limit, chosen, matching=matching):
        raise click.UsageError(f"Give ids, or --held, {FLAGS}, --limit. {ALONE}")
    if len(schedule_ids) == 1:
        cancelled = remote.client.cancel(schedule_ids[0])
        text = f"{cancelled.schedule_id}  {cancelled.message}"
        remote.show(cancelled, f"{text}  {cancelled.credits_remaining:,} credits")
        return
    done: Sequence[Any] = ()
    found, left, told = "", 0, 0
    if not schedule_ids and not yes:
        found, left = counted(remote, limit, status="scheduled", **chosen)
    if found:
        click.confirm(f"Cancel {found} that wait?{_left(left)}", abort=True, err=True)
        told = left
    if found or schedule_ids or yes:
        done = remote.client.cancel_many(schedule_ids or None, limit=limit, **chosen)
        left = done.occurrences_left
    if left not in (0, told):
        click.echo(_left(left).strip(), err=True)
    remote.show_many(
        done, _cancelled, id_name="scheduleId", was="cancelled", none="Nothing that waits matches."
    )


@click.command(name="replay")
@click.argument("schedule_ids", metavar="[ID...]", nargs=-1)
@click.option("--failed", is_flag=True, help="All that failed and were not replayed yet.")
@click.option(
    "--since", type=parameters.duration, help="Only those that failed in the last 1h, 2d."
)
@choosing_options(" Only those that failed from then on.")
@click.option("--idempotency-key", metavar="KEY", help="Repeating with it replays nothing twice.")
@remote_command()
def replay_command(
    remote: Remote,
    schedule_ids: tuple[str, ...],
    failed: bool,
    since: timedelta | None,
    limit: int | None,
    yes: bool,
    idempotency_key: str | None,
    **chosen: Any,
) -> None:
    """Replay schedules that have ended.

    Give ids, or options for all that failed and match, the oldest first. Each replay is a new
    schedule with the same request, due now, for one credit.

    \b
    postdate replay sch_01m7td70g0fw3s9s2m2v2v2v2v
    postdate replay --failed --since 1h
    """
    begin_since(chosen, since)
    matching = failed or any(chosen[name] is not None for name in CHOOSING)
    if is_unclear(schedule_ids, limit, chosen, matching=matching):
        raise click.UsageError(f"Give ids, or --failed, --since, {FLAGS}, --limit. {ALONE}")
    done: Sequence[Any] = ()
    found = ""
    if not schedule_ids and not yes:
        found, _ = counted(remote, limit, status="failed", **chosen)
    if found:
        click.confirm(f"Replay {found} that failed, for a credit each?", abort=True, err=True)
    if found or schedule_ids or yes:
        done = remote.client.replay_many(
            schedule_ids or None, limit=limit, idempotency_key=idempotency_key, **chosen
        )
    remote.show_many(
        done,
        lambda each: f"Replay of {each.replay_of}",
        id_name="replayOf",
        was="replayed",
        none="Nothing that failed matches.",
    )


def begin_since(chosen: dict[str, Any], since: timedelta | None) -> None:
    """Sets what --since means. Raises UsageError beside --from."""
    if since is not None:
        if chosen["from_"] is not None:
            raise click.UsageError("Give --since or --from, not both.")
        chosen["from_"] = datetime.now(UTC) - since


def is_unclear(
    ids: Sequence[str], limit: int | None, chosen: dict[str, Any], *, matching: bool
) -> bool:
    """Whether neither ids nor filters say which are meant, or both do. A period or a limit alone is
    not enough."""
    return matching == bool(ids) or bool(
        not matching and (chosen["from_"] or chosen["to"] or limit)
    )


def counted(remote: Remote, limit: int | None, **chosen: Any) -> tuple[str, int]:
    """The number of those that match, in words ("": none), and how many are left out: the next
    occurrences of recurring schedules, of which none was attempted."""
    most = _COUNTED if limit is None else min(limit, _COUNTED)
    found = left = 0
    for each in remote.client.list(**chosen):
        is_left = (
            each.status == "scheduled"
            and chosen["recurring_id"] is None
            and each.slot is not None
            and each.attempts == 0
        )
        found, left = found + (not is_left), left + is_left
        if found > most:
            break
    more = "more than " if found > most and most != limit else ""
    return f"{more}{min(found, most):,}" if found else "", left


def _left(count: int) -> str:
    if count == 0:
        return ""
    if count == 1:
        return " 1 belongs to a recurring schedule and stays: pause that instead."
    return f" {count:,} belong to recurring schedules and stay: pause those instead."


def _cancelled(each: Cancelled) -> str:
    how = "Cancelled" if each.status == "cancelled" else "Stopped after an attempt"
    return f"{how}  {each.credits_remaining:,} credits"
