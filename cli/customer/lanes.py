"""`postdate lane`: limits that schedules share by the lane that they name, and pauses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli import parameters
from cli.customer.remote import Remote, remote_command, when
from cli.tables import NOTE, Column, Row, at
from scheduler.texts import visible

if TYPE_CHECKING:
    from postdate import Account, Lane, Recurring

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS = (
    Column("LANE"), Column("STATE"), Column("LIMITS"), Column("RUNNING", right=True),
    Column("WAITING", right=True), Column("DUE", right=True), Column("SINCE (UTC)"),
    Column("EMPTY AT (UTC)"), NOTE,
)  # fmt: skip
_ALL = "all schedules"


@click.group(name="lane", cls=parameters.Group)
def lane_group() -> None:
    """Limit how fast the schedules of a lane start, and pause them.

    A lane's rate and parallelism hold for all workers together. Schedules that are due wait; none
    is dropped.
    """


def _one_or_all(said: str) -> Callable[[F], F]:
    """An argument LANE, or --all."""

    def decorate(function: F) -> F:
        every = click.option("--all", "every", is_flag=True, help=said)
        return click.argument("lane", metavar="[LANE]", required=False)(every(function))

    return decorate


@lane_group.command(name="list")
@click.option("--limit", type=parameters.Whole(min=1), default=100, show_default=True)
@remote_command()
def list_command(remote: Remote, limit: int) -> None:
    """List lanes that are set, paused or calm, or have schedules."""
    found = list(remote.client.lanes(limit=limit + 1))
    _tell_pause(remote)
    remote.show_page(found, limit, _COLUMNS, _row, "No lanes.")


@lane_group.command(name="show")
@_one_or_all("The account: its pause, its plan, and what it has.")
@remote_command()
def show_command(remote: Remote, lane: str | None, every: bool) -> None:
    """Show the limits of LANE, its schedules, and when it is empty."""
    if _is_all(lane, every):
        account = remote.client.account()
        _show_account(remote, account, *_holdings(account))
    else:
        _show(remote, remote.client.lane(lane or ""))


@lane_group.command(name="set")
@click.argument("lane")
@click.option("--rate", type=parameters.Whole(min=1), metavar="N", help="Starts in each --per.")
@click.option("--per", type=parameters.duration, help="1s to 1d.")
@click.option(
    "--burst",
    type=parameters.Whole(min=1),
    metavar="N",
    help="How many may start at once after a rest.  [default: 1]",
)
@click.option("--parallelism", type=parameters.Whole(min=1), metavar="N", help="At one time.")
@click.option("--note", metavar="TEXT", help="For people.")
@remote_command()
def set_command(remote: Remote, lane: str, **limits: Any) -> None:
    """Set all limits of LANE; limits that are not given are removed. Never ends a pause.

    \b
    postdate lane set customer-17 --rate 100 --per 1s --burst 10
    postdate lane set imports --parallelism 1
    """
    given = {name: value for name, value in limits.items() if value is not None}
    if not given:
        raise click.UsageError("Give a limit; postdate lane clear removes all.")
    _show(remote, remote.client.set_lane(lane, **given))


@lane_group.command(name="clear")
@click.argument("lane")
@remote_command()
def clear_command(remote: Remote, lane: str) -> None:
    """Remove the limits, the note and the pause of LANE. Schedules in it go on without limits."""
    cleared = remote.client.clear_lane(lane)
    remote.show(cleared, f"{lane}  {cleared.message}")


def pause_options(function: F) -> F:
    """Those that `pause_arguments` takes."""
    for option in (
        click.option("--note", metavar="TEXT", help="For people: why."),
        click.option(
            "--until",
            type=parameters.moment,
            metavar="TIME",
            help="It ends by itself: '2026-12-24 18:00', 2026-12-24T18:00Z.",
        ),
        click.option(
            "--for", "for_", type=parameters.duration, help="It ends by itself after 10m, 2h."
        ),
    ):
        function = option(function)
    return function


def pause_arguments(
    for_: timedelta | None, until: str | None, note: str | None
) -> dict[str, str | None]:
    """For the client. Raises UsageError."""
    if for_ is not None and until is not None:
        raise click.UsageError("Give one end, with --for or --until.")
    if for_ is not None:
        until = when(datetime.now(UTC) + for_)
    return {"paused_until": until, "pause_note": note}


@lane_group.command(name="pause")
@_one_or_all("All schedules of the account, with and without a lane.")
@pause_options
@remote_command()
def pause_command(remote: Remote, lane: str | None, every: bool, **options: Any) -> None:
    """Let no schedule of LANE start until it is resumed.

    If it is paused already, this sets the end and the note as given.

    \b
    postdate lane pause customer-17 --for 2h --note "they move house"
    """
    pause: Any = pause_arguments(**options)
    if _is_all(lane, every):
        _show_account(remote, remote.client.pause_account(**pause))
    else:
        _show(remote, remote.client.pause_lane(lane or "", **pause))


@lane_group.command(name="resume")
@_one_or_all("All schedules of the account; lanes with a pause of their own stay paused.")
@click.option("--calm", is_flag=True, help="Also end a calm: a target's Retry-After.")
@remote_command()
def resume_command(remote: Remote, lane: str | None, every: bool, calm: bool) -> None:
    """Let LANE go on: in order of due time, within its limits."""
    if calm and every:
        raise click.UsageError("--calm goes with a lane.")
    if _is_all(lane, every):
        _show_account(remote, remote.client.resume_account())
    elif calm:
        _show(remote, remote.client.change_lane(lane or "", paused=False, calm_until=None))
    else:
        _show(remote, remote.client.resume_lane(lane or ""))


def _is_all(lane: str | None, every: bool) -> bool:
    if every == (lane is not None):
        raise click.UsageError("Give a lane, or --all.")
    return every


def _show(remote: Remote, lane: Lane) -> None:
    _tell_pause(remote)
    remote.show_table(lane, _COLUMNS, [_row(lane)])


def _show_account(remote: Remote, account: Account, *more: str) -> None:
    lines = _pause_lines(account) or [f"{_ALL}  not paused"]
    remote.show(account, "\n".join([*lines, *more]))


def _holdings(account: Account) -> list[str]:
    """`plan free, 10 requests a second` and `4,096 of 67,108,864 bytes stored, …`."""
    rate, most = account.requests_per_second, account.stored_bytes_limit
    allowed = "any rate" if rate is None else f"{rate:,} requests a second"
    stored = f"{account.stored_bytes:,}{'' if most is None else f' of {most:,}'} bytes stored"
    counts = f"lanes: {account.lanes:,}, recurring schedules: {account.recurring:,}"
    left = f"{account.credits_remaining:,} credits left"
    return [f"plan {account.plan}, {allowed}", f"{left}, {stored}, {counts}"]


def _tell_pause(remote: Remote) -> None:
    """For people: nothing starts in any lane while all schedules are paused."""
    if not remote.as_json:
        for line in _pause_lines(remote.client.account()):
            click.echo(visible(line), err=True)


def _row(lane: Lane) -> Row:
    """Below it its pause, and a calm."""
    since, empty = at(lane.oldest_due_at), at(lane.empty_at)
    counts = [f"{count:,}" for count in (lane.running, lane.waiting, lane.due)]
    below = [f"paused{pause_words(lane, at)}"] if lane.paused else []
    if lane.calm_until is not None:
        below.append(f"calm until {at(lane.calm_until)}, as a target asked")
    cells = [lane.lane, lane.state, _limits(lane), *counts, since, empty, lane.note or ""]
    return Row(cells, below)


def _limits(lane: Lane) -> str:
    limits = []
    if lane.rate is not None:
        limits.append(f"{lane.rate:,} per {lane.per}")
    if lane.burst is not None and lane.burst > 1:
        limits.append(f"burst {lane.burst:,}")
    if lane.parallelism is not None:
        limits.append(f"{lane.parallelism:,} at a time")
    return ", ".join(limits) or "no limits"


def _pause_lines(account: Account) -> list[str]:
    return [f"{_ALL}  paused{pause_words(account)}"] if account.paused else []


def pause_words(paused: Lane | Account | Recurring, time: Callable[[datetime], str] = when) -> str:
    """` by ci until 2026-…Z: they move house`."""
    by = "" if paused.paused_by is None else f" by {paused.paused_by}"
    until = "" if paused.paused_until is None else f" until {time(paused.paused_until)}"
    note = "" if paused.pause_note is None else f": {paused.pause_note}"
    return f"{by}{until}{note}"
