"""`postdate schedule`, `change`, `get` and `list`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import click

from cli import parameters
from cli.customer.remote import Remote, as_api, remote_command, when
from cli.customer.requests import (
    CLEARED,
    WHEN,
    change_arguments,
    clear_option,
    create_options,
    request_arguments,
    schedule_options,
)
from cli.tables import LABELS, NOTE, REQUEST, Column, Ready, Row, at, fields
from scheduler.field_rows import Kind
from scheduler.lanes import hold_words
from scheduler.schema import FIELDS

if TYPE_CHECKING:
    from postdate import Callback, HeldBy, Phases, Schedule, StatusFilter

# Of these, nought says nothing.
_COUNTS = {row.name for row in FIELDS if row.kind is Kind.WHOLE} | {"attempts", "missed"}
_STATUSES = ("scheduled", "completed", "failed", "cancelled")
_COLUMNS = (
    Column("STATUS"), Column("ID"), REQUEST, Column("REFERENCE"), Column("LANE"), LABELS,
    NOTE,
)  # fmt: skip


@click.command(name="schedule")
@click.argument("target", metavar="URL")
@create_options
@click.option("--idempotency-key", metavar="KEY", help="Repeating with it stores nothing twice.")
@remote_command()
def schedule_command(
    remote: Remote, target: str, idempotency_key: str | None, **options: Any
) -> None:
    """Call URL at a chosen time. Costs one credit.

    \b
    postdate schedule https://example.com/hook --in 10m --body '{"hello": "future"}'
    postdate schedule https://example.com/cart/17 --delay 30m \\
        --reference cart-17 --on-existing replace --max-wait 4h
    """
    if all(options[name] is None for name in WHEN):
        raise click.UsageError("Say when, with one of --in, --delay and --at.")
    created = remote.client.schedule(
        target, idempotency_key=idempotency_key, **request_arguments(options)
    )
    said = created.message
    if created.existing:
        done = "replaced" if options["on_existing"] == "replace" else "kept"
        said = f"It waited already and was {done}; it is due {when(created.trigger_at)}"
    remote.show(created, f"{created.schedule_id}  {said}")


@click.command(name="change")
@click.argument("schedule_id", metavar="ID")
@click.option("--target", metavar="URL", help="Where to send it instead.")
@schedule_options
@clear_option(CLEARED)
@remote_command()
def change_command(
    remote: Remote,
    schedule_id: str,
    target: str | None,
    cleared: tuple[str, ...],
    **options: Any,
) -> None:
    """Change the request or the time of the waiting schedule ID. Other fields stay.

    Each is replaced as a whole, all headers by those that are given. No credit moves.

    \b
    postdate change sch_01m7zb65jxey8a0h1qyts1g7mv --in 2h
    """
    given = change_arguments(target, cleared, options)
    if not given:
        raise click.UsageError("Say what to change: postdate change --help lists it.")
    changed = remote.client.change(schedule_id, **given)
    remote.show(changed, details_of(changed))


@click.command(name="get")
@click.argument("schedule_id", metavar="ID")
@remote_command()
def get_command(remote: Remote, schedule_id: str) -> None:
    """Show the schedule ID and its outcome.

    It is kept for a day after its end, for a week if it failed. Values that look like secrets are
    masked.
    """
    found = remote.client.get(schedule_id)
    remote.show(found, details_of(found))


@click.command(name="list")
@click.option(
    "--status",
    "statuses",
    type=parameters.Words(*_STATUSES, "executed"),
    metavar="STATUS,...",
    help=f"Instead: {', '.join(_STATUSES)}; executed is completed and failed.",
)
@click.option(
    "--held/--not-held",
    default=None,
    help="Only due schedules that something keeps from starting.",
)
@parameters.filter_options()
@click.option("--limit", type=parameters.Whole(min=1), default=20, show_default=True)
@click.option(
    "--order", type=parameters.Choice(["asc", "desc"]), help="[default: asc for what waits]"
)
@remote_command()
def list_command(
    remote: Remote,
    statuses: list[StatusFilter] | None,
    limit: int,
    order: Literal["asc", "desc"] | None,
    held: bool | None,
    **filters: Any,
) -> None:
    """List waiting schedules by time, or ended ones by --status.

    With --reference, waiting schedules come by reference. Ended ones come newest first, while they
    are kept. `failed` alone means dead letters: failed schedules that were not replayed.

    \b
    postdate list --reference 'order-*'
    postdate list --held
    """
    # One more than is shown tells whether there are more.
    of_lists: dict[str, Any] = {"status": statuses, "limit": limit + 1, "order": order}
    found = list(remote.client.list(**of_lists, held=held, **filters))
    none = "Nothing is held." if held else "No schedules." if statuses else "Nothing waits."
    has_ended = statuses is not None and "scheduled" not in statuses
    time = Column("ENDED (UTC)" if has_ended else "TIME (UTC)" if statuses else "DUE (UTC)")
    remote.show_page(found, limit, (time, *_COLUMNS), _row, none)


def details_of(schedule: Schedule) -> Ready:
    """A line for each field that has a value; of a replay only why there can be none."""
    answer = as_api(schedule)
    assert isinstance(answer, dict)
    answer["phases"] = schedule.phases and phases_text(schedule.phases)
    answer["callback"] = schedule.callback and callback_text(schedule.callback)
    answer["heldBy"] = schedule.held_by and held_text(schedule.held_by)
    del answer["etag"], answer["replayable"]
    if schedule.status == "scheduled":
        del answer["notReplayableReason"]
    return field_lines(answer)


def field_lines(answer: Mapping[str, object]) -> Ready:
    """A line for each field that has a value, but for the account's callback, which is usual."""
    url = answer["callbackUrl"]
    answer = {**answer, "callbackUrl": "none" if url is None else url if url != "default" else ""}
    shown = {
        name: _shown(name, value)
        for name, value in answer.items()
        if value not in (None, {}, [], "") and not (value == 0 and name in _COUNTS)
    }
    return fields(shown)


def phases_text(phases: Phases) -> str:
    """`connection reused, first byte 1,204 ms, last byte 3 ms`."""
    parts = {
        "resolve": phases.resolve_ms,
        "connect": phases.connect_ms,
        "TLS": phases.tls_ms,
        "first byte": phases.first_byte_ms,
        "last byte": phases.last_byte_ms,
    }
    lengths = [f"{name} {ms:,} ms" for name, ms in parts.items() if ms is not None]
    return ", ".join(["connection reused"] * phases.connection_reused + lengths)


def callback_text(callback: Callback) -> str:
    """`pending, 1 attempt: 503 Service Unavailable, next at 2026-…`."""
    attempts = "1 attempt" if callback.attempts == 1 else f"{callback.attempts} attempts"
    text = f"{callback.status}, {attempts}"
    if callback.attempts:
        said = f"{callback.status_code or ''} {callback.error_message}"
        text += f": {said.strip()}"
    if callback.next_attempt_at is not None:
        text += f", next at {when(callback.next_attempt_at)}"
    return text


def held_text(
    held_by: HeldBy, time: Callable[[datetime], str] = when, *, names_lane: bool = True
) -> str:
    """The dashboard's words: `waits for lane eu: paused until 2026-…, 3 before it`."""
    return hold_words(
        held_by.cause,
        held_by.lane if names_lane else None,
        "" if held_by.until is None else time(held_by.until),
        estimated=held_by.estimated,
        ahead=held_by.ahead,
    )


def _shown(name: str, value: object) -> str:
    if name == "responseBody" and isinstance(value, str):
        return shown_text(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shown_text(said: str) -> str:
    """A target's text, escaped so that the terminal does not obey it."""
    return said if said.isprintable() else json.dumps(said)


def _row(schedule: Schedule) -> Row:
    """Of a waiting schedule the next attempt, of another one the end."""
    status, note = str(schedule.status), schedule.error_message or ""
    moment = schedule.executed_at or schedule.trigger_at
    if status == "scheduled":
        moment = schedule.next_attempt_at or schedule.trigger_at
        if schedule.next_attempt_at is not None:
            status, note = "retrying", f"attempt {schedule.attempts + 1}, after {note}"
    if schedule.held_by is not None:
        words = held_text(schedule.held_by, at, names_lane=False)
        status, note = "held", f"{note}; {words}" if note else words
    request = f"{schedule.target_method} {schedule.target_url}"
    names = (schedule.schedule_id, request, schedule.reference or "", schedule.lane or "")
    return Row([at(moment), status, *names, ", ".join(schedule.labels), note])
