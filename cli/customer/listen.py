"""`postdate listen`: a target that shows what arrives, and how late."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import click

from cli import parameters
from cli.output import fail, show
from cli.serving.port import reserve
from scheduler.errors import PostdateError
from scheduler.times import format_iso8601, parse_iso8601

# Of a body, at most.
_KEPT_BYTES = 1 << 20
_SHOWN_BODY = 60
_SHOWN_PATH = 200


@click.command(name="listen")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=parameters.Whole(0, 65535), default=9000, show_default=True)
@click.option(
    "--status",
    type=parameters.Whole(200, 599),
    default=200,
    show_default=True,
    help="The status of every answer.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
def listen_command(host: str, port: int, status: int, as_json: bool) -> None:
    """Receive requests and print each, with its lateness.

    A target to try things out with. Lateness, in milliseconds, is this machine's time of arrival
    less the Postdate-Trigger-At that the request carries. Ctrl-C ends it.

    \b
    postdate listen --port 9000
    postdate schedule http://127.0.0.1:9000/hello --in 10s
    """
    try:
        asyncio.run(_listen(host, port, status, as_json))
    except PostdateError as error:
        fail(str(error), as_json=as_json)
    except OSError as error:  # a host that is none
        fail(f"Cannot listen on {host}:{port}: {error.strerror}", as_json=as_json)


async def _listen(host: str, number: int, status: int, as_json: bool) -> None:
    """Serves until SIGINT or SIGTERM. Raises PostdateError, or OSError for a host that is none."""
    import uvicorn  # which the other commands need not import

    async def app(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        arrived_ns = time.time_ns()
        body = await _read(receive)
        headers = [] if status == 204 else [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body"})
        arrival = arrival_of(scope, body, arrived_ns)
        show(arrival, line_of(arrival), as_json=as_json)

    def end() -> None:
        server.should_exit = True

    config = uvicorn.Config(
        app,
        loop="none",  # asyncio.run has chosen it
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    # Uvicorn raises a signal again after its end: here it is handled, and the end no failure.
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, end)
    port = await reserve(host, number, patience_s=0.0)
    try:
        listeners = port.listen()
        show({"listening": port.url}, f"Listening on {port.url}", as_json=as_json)
        await server.serve(listeners)
    finally:
        port.free()


async def _read(receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> bytes:
    """The body, or the beginning of a long one."""
    kept, more = b"", True
    while more:
        event = await receive()
        if len(kept) < _KEPT_BYTES:
            kept += event.get("body", b"")
        more = event.get("more_body", False)
    return kept


def arrival_of(scope: Mapping[str, Any], body: bytes, arrived_ns: int) -> dict[str, Any]:
    """One request, as --json prints it. `scope` is that of ASGI; `latenessMs` is None if the
    request does not say when it was due."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = scope["query_string"].decode("latin-1")
    attempt = headers.get("postdate-attempt", "")
    return {
        "receivedAt": format_iso8601(arrived_ns // 1_000_000),
        "method": scope["method"],
        "path": scope["raw_path"].decode("latin-1") + (f"?{query}" if query else ""),
        "headers": headers,
        "body": body.decode(errors="replace"),
        "latenessMs": _lateness_ms(headers.get("postdate-trigger-at"), arrived_ns),
        "scheduleId": headers.get("postdate-schedule-id"),
        "attempt": int(attempt) if attempt.isdecimal() else None,
    }


def line_of(arrival: Mapping[str, Any]) -> str:
    parts = [arrival["receivedAt"], f"{arrival['method']} {_shown(arrival['path'], _SHOWN_PATH)}"]
    if arrival["body"]:
        parts.append(_shown(arrival["body"], _SHOWN_BODY))
    if arrival["latenessMs"] is not None:
        parts.append(f"{arrival['latenessMs']:.1f} ms late")
    if (arrival["attempt"] or 0) > 1:
        parts.append(f"attempt {arrival['attempt']}")
    return "  ".join(parts)


def _lateness_ms(trigger_at: str | None, arrived_ns: int) -> float | None:
    if trigger_at is None:
        return None
    try:
        return round(arrived_ns / 1e6 - parse_iso8601(trigger_at), 1)
    except ValueError:
        return None


def _shown(text: str, most: int) -> str:
    """Escapes what a terminal would obey, and cuts it to `most` characters."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in cut)
