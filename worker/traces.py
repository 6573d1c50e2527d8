"""Traces of fires, by OpenTelemetry: a root span each, linked to the trace that created the
schedule, because years may lie between the two."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, TraceFlags

from scheduler.models import Invocation, Outcome, Status
from scheduler.target.short_texts import spelt_headers
from scheduler.target.targets import parse_target

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_MOST_OPEN = 10_000
_TRACE_ID_BYTES = 16
_CLOSING_S = 5.0

Sign = Callable[[Invocation], bytes | None]


class Traces:
    """`ratio` of all fires, and all whose create was sampled; of occurrences of recurring schedules
    `ratio` alone, because they go on for years. Where spans go is said by the usual
    variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_SERVICE_NAME`, …)."""

    def __init__(self, ratio: float, exporter: SpanExporter | None = None) -> None:
        self._ratio = ratio
        # The coin is ours, and tossed before any of this is touched.
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource.create({"service.name": "postdate-worker"}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter or _otlp()))
        self._tracer = self._provider.get_tracer("postdate")
        self._open: dict[Invocation, Span] = {}

    def traced(self, sign: Sign) -> Sign:
        """Header lines as `sign` gives them, with a `traceparent` where the fire is traced; the
        caller's own one stays alone."""

        def lines(invocation: Invocation) -> bytes | None:
            signed = sign(invocation)
            request = invocation.request
            was_sampled = request.trace is not None and request.recurring is None
            if signed is None or (not was_sampled and random.random() >= self._ratio):  # noqa: S311
                return signed
            context = self._begun(invocation).get_span_context()
            if any(name.lower() == "traceparent" for name in spelt_headers(request.headers)):
                return signed
            header = f"traceparent: 00-{context.trace_id:032x}-{context.span_id:016x}-01\r\n"
            return signed + header.encode()

        return lines

    def ended(self, invocation: Invocation, outcome: Outcome, late_ms: int | None) -> None:
        span = self._open.pop(invocation, None)
        if span is None:
            return
        if outcome.status_code:
            span.set_attribute("http.response.status_code", outcome.status_code)
        if late_ms is not None:
            span.set_attribute("postdate.lateness_ms", late_ms)
        if outcome.status is not Status.COMPLETED:
            span.set_attribute("error.type", str(outcome.status_code or "no_answer"))
            span.set_status(StatusCode.ERROR, outcome.error_message)
        span.end()

    def close(self) -> None:
        """Sends the rest; a few seconds at most, even if the collector does not answer."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSING_S)

    def _begun(self, invocation: Invocation) -> Span:
        self._open.pop(invocation, None)
        if len(self._open) >= _MOST_OPEN:
            del self._open[next(iter(self._open))]
        request = invocation.request
        span = self._tracer.start_span(
            request.method,
            context=Context(),  # a root, whatever goes on around
            kind=SpanKind.CLIENT,
            links=_links(request.trace),
            attributes=_attributes(invocation),
        )
        self._open[invocation] = span
        return span


def _attributes(invocation: Invocation) -> dict[str, Any]:
    """Path and query stay out: customers put secrets there."""
    origin = parse_target(invocation.request.url).origin
    local = invocation.schedule_id[4:]
    made = ("invocation", "inv_") if not invocation.is_callback else ("callback", "cbk_")
    occurrence = invocation.request.recurring
    rule = {} if occurrence is None else {"postdate.recurring_id": occurrence.recurring_id}
    return {
        "http.request.method": invocation.request.method,
        "server.address": origin.host,
        "server.port": origin.port,
        "url.scheme": origin.scheme,
        "postdate.schedule_id": invocation.schedule_id,
        f"postdate.{made[0]}_id": made[1] + local,
        "postdate.attempt": invocation.attempt,
        **rule,
    }


def _links(trace: bytes | None) -> list[Link]:
    if trace is None:
        return []
    trace_id = int.from_bytes(trace[:_TRACE_ID_BYTES], "big")
    span_id = int.from_bytes(trace[_TRACE_ID_BYTES:], "big")
    flags = TraceFlags(TraceFlags.SAMPLED)
    return [Link(SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags))]


def _otlp() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
