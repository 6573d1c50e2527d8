"""`postdate listen`: a target that shows what arrives, and how late."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
import msgspec

from cli.output import fail, show
from scheduler.errors import PostdateError
from scheduler.times import format_iso8601, parse_iso8601

if TYPE_CHECKING:
    from cli.port import Port

_SHOWN_BODY = 60
_SHOWN_PATH = 200


class Arrival(msgspec.Struct, frozen=True, rename="camel"):
    """One request as it arrived. `lateness_ms` is None if it does not say when it was due."""

    received_at: str
    method: str
    path: str
    body: str
    lateness_ms: float | None
    schedule_id: str | None
    attempt: int | None


@click.command(name="listen")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=9000, show_default=True)
@click.option(
    "--status",
    type=click.IntRange(200, 599),
    default=200,
    show_default=True,
    help="What every request is answered with.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def listen_command(host: str, port: int, status: int, as_json: bool) -> None:
    """Receive requests and print each, with its lateness in milliseconds.

    A target to try things out with. Lateness is this machine's time of arrival less the
    Postdate-Trigger-At that the request carries. Ctrl-C ends it.

    \b
    postdate listen --port 9000
    postdate schedule http://127.0.0.1:9000/hello --in 10s
    """
    from cli.receiver import receive  # imports that no other command needs

    def on_ready(at: Port) -> None:
        show({"listening": at.url}, f"Listening on {at.url}", as_json=as_json)

    def on_request(scope: Mapping[str, Any], body: bytes, arrived_ns: int) -> None:
        arrival = arrival_of(scope, body, arrived_ns)
        show(msgspec.to_builtins(arrival), line_of(arrival), as_json=as_json)

    try:
        asyncio.run(receive(host, port, status, on_ready, on_request))
    except PostdateError as error:
        fail(str(error), as_json=as_json)
    except OSError as error:  # a host that is none
        fail(f"Cannot listen on {host}:{port}: {error.strerror}", as_json=as_json)


def arrival_of(scope: Mapping[str, Any], body: bytes, arrived_ns: int) -> Arrival:
    """What a request says about itself; `scope` is that of ASGI."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = scope["query_string"].decode("latin-1")
    attempt = headers.get("postdate-attempt", "")
    return Arrival(
        received_at=format_iso8601(arrived_ns // 1_000_000),
        method=scope["method"],
        path=scope["raw_path"].decode("latin-1") + (f"?{query}" if query else ""),
        body=body.decode(errors="replace"),
        lateness_ms=_lateness_ms(headers.get("postdate-trigger-at"), arrived_ns),
        schedule_id=headers.get("postdate-schedule-id"),
        attempt=int(attempt) if attempt.isdecimal() else None,
    )


def line_of(arrival: Arrival) -> str:
    """For people: one line, whatever the request holds."""
    told = [arrival.received_at, f"{arrival.method} {_shown(arrival.path, _SHOWN_PATH)}"]
    if arrival.body:
        told.append(_shown(arrival.body, _SHOWN_BODY))
    if arrival.lateness_ms is not None:
        told.append(f"{arrival.lateness_ms:.1f} ms late")
    if arrival.attempt is not None and arrival.attempt > 1:
        told.append(f"attempt {arrival.attempt}")
    return "  ".join(told)


def _lateness_ms(trigger_at: str | None, arrived_ns: int) -> float | None:
    if trigger_at is None:
        return None
    try:
        return round(arrived_ns / 1e6 - parse_iso8601(trigger_at), 1)
    except ValueError:
        return None


def _shown(text: str, most: int) -> str:
    """Without anything that a terminal would obey."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in cut)
