"""`postdate recurring`: requests that are sent again and again, by a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from cli import parameters
from cli.customer.lanes import pause_arguments, pause_options, pause_words
from cli.customer.remote import Remote, as_api, remote_command, when
from cli.customer.requests import (
    CLEARED_OF_RULE,
    change_arguments,
    clear_option,
    request_arguments,
    request_options,
)
from cli.customer.schedules import field_lines
from cli.tables import NOTE, REQUEST, Column, Ready, Row, at, table
from scheduler.texts import visible

if TYPE_CHECKING:
    from postdate import Recurring, RecurringState

_STATES = ("active", "paused", "blocked", "ended")
_RULE = ("cron", "every")
_COLUMNS = (
    Column("NEXT (UTC)"), Column("STATE"), Column("NAME OR ID"), Column("RULE", least=12), REQUEST,
    NOTE,
)  # fmt: skip
_CLEARED = ["name", "time-zone", "starts-at", "ends-at", "expires-after", *CLEARED_OF_RULE]

_RULE_OPTIONS = (
    click.option("--cron", metavar="'M H D M W'", help="Five fields: '0 9 * * 1-5', '0 0 L * *'."),
    click.option("--every", type=parameters.duration, help="Instead: 15m, 1h, 1d; 1s to 366d."),
    click.option(
        "--time-zone", metavar="ZONE", help="Europe/Berlin, America/New_York.  [default: UTC]"
    ),
    click.option(
        "--starts-at",
        type=parameters.moment,
        metavar="TIME",
        help="Not before; --every counts from it. '2026-12-24 18:00' is this machine's time"
        f" ({parameters.local_zone()}).",
    ),
    click.option("--ends-at", type=parameters.moment, metavar="TIME", help="Not after."),
)
_OWN_OPTIONS = (
    click.option("--name", metavar="TEXT", help="Unique in the account; commands take it for ID."),
    *_RULE_OPTIONS,
    click.option(
        "--expires-after",
        type=parameters.duration,
        help="An occurrence that is so late is not sent.",
    ),
)


def _with(*options: Callable[..., Any]) -> Callable[..., Any]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@click.group(name="recurring", cls=parameters.Group)
def recurring_group() -> None:
    """Call a URL again and again, by a cron expression or interval.

    Each occurrence is a schedule of its own. It is made, and costs one credit, when the one before
    it is sent. ID may be a name as well.
    """


@recurring_group.command(name="create")
@click.argument("target", metavar="URL")
@_with(*_OWN_OPTIONS)
@request_options
@click.option(
    "--or-change", is_flag=True, help="Give the one of this --name these settings instead."
)
@click.option("--idempotency-key", metavar="KEY", help="Repeating with it stores nothing twice.")
@remote_command()
def create_command(
    remote: Remote, target: str, or_change: bool, idempotency_key: str | None, **options: Any
) -> None:
    """Call URL at each time of --cron, or at the interval --every.

    \b
    postdate recurring create https://example.com/report --name report \\
        --cron '0 9 * * 1-5' --time-zone Europe/Berlin
    postdate recurring create https://example.com/poll --every 15m
    """
    _check_rule(options)
    given = request_arguments(options)
    if or_change:
        name = given.pop("name", None)
        if name is None or idempotency_key is not None:
            raise click.UsageError("--or-change goes with --name, and needs no --idempotency-key.")
        put = remote.client.put_recurring(name, target, **given)
        done = "created" if put.created else "unchanged" if put.unchanged else "changed"
        remote.show_table(put, (Column("DONE"), *_COLUMNS), [Row([done, *_row(put).cells])])
        return
    made = remote.client.create_recurring(target, idempotency_key=idempotency_key, **given)
    remote.show(made, f"{made.recurring_id}  {made.message}")


@recurring_group.command(name="list")
@click.option("--state", type=parameters.Choice(_STATES), help="Only those.")
@click.option("--limit", type=parameters.Whole(min=1), default=100, show_default=True)
@remote_command()
def list_command(remote: Remote, state: RecurringState | None, limit: int) -> None:
    """List recurring schedules, the oldest first."""
    found = list(remote.client.recurring_all(state=state, limit=limit + 1))
    remote.show_page(found, limit, _COLUMNS, _row, "No recurring schedules.")


@recurring_group.command(name="show")
@click.argument("which", metavar="ID")
@remote_command()
def show_command(remote: Remote, which: str) -> None:
    """Show ID, with its next five times."""
    _show(remote, remote.client.recurring(_id_of(which)))


@recurring_group.command(name="change")
@click.argument("which", metavar="ID")
@click.option("--target", metavar="URL", help="Where to send it instead.")
@_with(*_OWN_OPTIONS)
@request_options
@clear_option(_CLEARED)
@remote_command()
def change_command(
    remote: Remote, which: str, target: str | None, cleared: tuple[str, ...], **options: Any
) -> None:
    """Change the rule or the request of ID. Other fields stay.

    The waiting occurrence changes too; if a worker has it already, the one after it does.

    \b
    postdate recurring change report --cron '0 8 * * 1-5'
    """
    given = change_arguments(target, cleared, options)
    if not given:
        raise click.UsageError("Say what to change: postdate recurring change --help lists it.")
    _show(remote, remote.client.change_recurring(_id_of(which), **given))


@recurring_group.command(name="pause")
@click.argument("which", metavar="ID")
@pause_options
@remote_command()
def pause_command(remote: Remote, which: str, **options: Any) -> None:
    """Make no occurrences of ID until it is resumed, or the pause ends.

    The waiting occurrence is cancelled and refunded. If ID is paused already, this sets the end and
    the note as given.

    \b
    postdate recurring pause report --until '2026-12-27 00:00' --note "over Christmas"
    """
    pause: Any = pause_arguments(**options)
    paused = remote.client.pause_recurring(_id_of(which), **pause)
    remote.show_table(paused, _COLUMNS, [_row(paused)])


@recurring_group.command(name="resume")
@click.argument("which", metavar="ID")
@remote_command()
def resume_command(remote: Remote, which: str) -> None:
    """Go on with ID at its next time. Times during the pause are left out."""
    resumed = remote.client.resume_recurring(_id_of(which))
    remote.show_table(resumed, _COLUMNS, [_row(resumed)])


@recurring_group.command(name="trigger")
@click.argument("which", metavar="ID")
@click.option("--idempotency-key", metavar="KEY", help="Repeating with it triggers nothing twice.")
@remote_command()
def trigger_command(remote: Remote, which: str, idempotency_key: str | None) -> None:
    """Send the request of ID once now, besides its own times. Costs one credit."""
    made = remote.client.trigger_recurring(_id_of(which), idempotency_key=idempotency_key)
    remote.show(made, f"{made.schedule_id}  {made.message}")


@recurring_group.command(name="delete")
@click.argument("which", metavar="ID")
@remote_command()
def delete_command(remote: Remote, which: str) -> None:
    """Delete ID. The waiting occurrence is cancelled and refunded."""
    deleted = remote.client.delete_recurring(_id_of(which))
    remote.show(deleted, f"{deleted.recurring_id}  {deleted.message}")


@recurring_group.command(name="preview")
@_with(*_RULE_OPTIONS)
@remote_command()
def preview_command(remote: Remote, **options: Any) -> None:
    """Show the next ten times of a rule, and the rule in words. Stores nothing.

    \b
    postdate recurring preview --cron '0 9 * * 1-5' --time-zone Europe/Berlin
    """
    _check_rule(options)
    preview = remote.client.preview_recurring(**options)
    name = options["time_zone"] or "UTC"
    columns = (Column("DUE (UTC)"), Column("DAY" if name == "UTC" else f"DUE ({name})"))
    found = table(columns, [(at(each), _local(each, name)) for each in preview.next])
    remote.show(preview, Ready(f"{visible(preview.description)}\n\n{found}"))


def _check_rule(options: Mapping[str, Any]) -> None:
    if sum(options[name] is not None for name in _RULE) != 1:
        raise click.UsageError("Say when, with --cron or --every.")


def _id_of(which: str) -> str:
    """An id, or a name as the API takes it in its place."""
    return which if which.startswith(("rec_", "name:")) else f"name:{which}"


def _show(remote: Remote, recurring: Recurring) -> None:
    answer = as_api(recurring)
    assert isinstance(answer, dict)
    del answer["etag"]
    answer["next"] = ", ".join(when(each) for each in recurring.next)
    remote.show(recurring, field_lines(answer))


def _row(recurring: Recurring) -> Row:
    notes = [recurring.reason or ""]
    if recurring.paused:
        notes.append(f"paused{pause_words(recurring, at)}")
    if recurring.state == "blocked" and recurring.missed:
        notes.append(f"{recurring.missed:,} missed")
    request = f"{recurring.target_method} {recurring.target_url}"
    named = recurring.name or recurring.recurring_id
    cells = [at(recurring.next_at), recurring.state, named, recurring.description, request]
    return Row([*cells, ", ".join(filter(None, notes))])


def _local(moment: datetime, zone: str) -> str:
    """ "" if this machine does not know the zone; of UTC the day of the week."""
    try:
        local = moment.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ""
    return f"{local:%a}" if zone == "UTC" else f"{local:%a %Y-%m-%d %H:%M:%S %Z}"
