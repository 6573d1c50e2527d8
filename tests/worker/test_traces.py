"""Spans of fires, as OpenTelemetry's own exporter gets them."""

from __future__ import annotations

import re
import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from scheduler.errors import SettingsError
from scheduler.models import Invocation, Occurrence, Outcome
from scheduler.runtime.settings import Settings
from tests.worker.desk import COMPLETED, Invocations
from worker.send.outcome import Failure, failed
from worker.traces import Traces
from worker.worker import _traces

TRACE = bytes(range(1, 25))
_LINE = re.compile(rb"traceparent: 00-([0-9a-f]{32})-([0-9a-f]{16})-01\r\n")


class Traced:
    """Fires are signed and ended; `spans` are what came of it."""

    def __init__(self, ratio: float) -> None:
        self._exporter = InMemorySpanExporter()
        self.traces = Traces(ratio, self._exporter)
        self.lines = self.traces.traced(lambda _: b"signed\r\n")

    def span_of(self, fired: Invocation, outcome: Outcome = COMPLETED) -> ReadableSpan:
        self.lines(fired)
        self.traces.ended(fired, outcome, None)
        [span] = self.spans()
        return span

    def spans(self) -> list[ReadableSpan]:
        self.traces.close()
        return list(self._exporter.get_finished_spans())


def invocation(trace: bytes | None = TRACE, **request: object) -> Invocation:
    return Invocations().one(url="http://example.com:81/secret?x=y", trace=trace, **request)


def test_a_fire_is_a_root_with_a_link_to_its_create() -> None:
    traced, fired = Traced(0.0), invocation()
    lines = traced.lines(fired)
    traced.traces.ended(fired, COMPLETED, 3)
    [span] = traced.spans()
    match = _LINE.fullmatch((lines or b"").removeprefix(b"signed\r\n"))
    assert match is not None
    assert span.context is not None
    assert int(match[1], 16) == span.context.trace_id != int.from_bytes(TRACE[:16], "big")
    assert int(match[2], 16) == span.context.span_id
    [link] = span.links
    assert link.context.trace_id == int.from_bytes(TRACE[:16], "big")
    assert link.context.span_id == int.from_bytes(TRACE[16:], "big")
    assert (span.parent, span.kind, span.status.is_ok) == (None, SpanKind.CLIENT, True)
    attributes = dict(span.attributes or {})
    assert attributes["http.response.status_code"] == 200
    assert attributes["postdate.lateness_ms"] == 3
    assert (attributes["server.address"], attributes["server.port"]) == ("example.com", 81)
    assert "secret" not in str(span.to_json())


def test_the_callers_own_traceparent_stays_alone() -> None:
    traced, fired = Traced(0.0), invocation(headers={"TraceParent": "00-x"})
    assert traced.lines(fired) == b"signed\r\n"
    traced.traces.ended(fired, COMPLETED, 0)
    assert len(traced.spans()) == 1


@pytest.mark.parametrize(("kind", "prefix"), [("invocation", "inv_"), ("callback", "cbk_")])
@pytest.mark.parametrize("recurring", [None, Occurrence("rec_1", 1)])
def test_a_span_names_the_message_that_went_out_and_its_recurring_schedule(
    kind: str, prefix: str, recurring: Occurrence | None
) -> None:
    fired = invocation(trace=None, recurring=recurring)
    fired.is_callback = kind == "callback"
    found = dict(Traced(1.0).span_of(fired).attributes or {})
    named = {name: value for name, value in found.items() if name.endswith(("n_id", "k_id"))}
    assert named == {f"postdate.{kind}_id": prefix + fired.schedule_id[4:]}
    assert found.get("postdate.recurring_id") == (recurring and "rec_1")


@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_occurrences_follow_the_ratio_alone_and_are_linked_to_their_create(ratio: float) -> None:
    traced, fired = Traced(ratio), invocation(recurring=Occurrence("rec_1", 1))
    lines = traced.lines(fired)
    traced.traces.ended(fired, COMPLETED, None)
    found = [link.context.span_id for span in traced.spans() for link in span.links]
    assert found == ([int.from_bytes(TRACE[16:], "big")] if ratio else [])
    assert (lines != b"signed\r\n") == bool(ratio)


def test_what_fails_says_why() -> None:
    span = Traced(1.0).span_of(invocation(trace=None), failed(Failure.RESET))
    assert span.links == ()
    assert span.status.description == "Connection reset"
    assert dict(span.attributes or {})["error.type"] == "no_answer"


def test_what_cannot_be_signed_is_not_sent_and_not_traced() -> None:
    traced, fired = Traced(1.0), invocation()
    assert traced.traces.traced(lambda _: None)(fired) is None
    traced.traces.ended(fired, COMPLETED, None)
    assert traced.spans() == []


def test_those_that_never_end_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.traces._MOST_OPEN", 2)
    traced = Traced(1.0)
    for _ in range(10):  # a drain gave them back, or their leases were lost
        traced.lines(invocation())
    assert len(traced.traces._open) == 2


def test_without_the_package_the_setting_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _traces(Settings()) is None
    monkeypatch.setitem(sys.modules, "worker.traces", None)
    with pytest.raises(SettingsError, match=r"postdate\[otel\]"):
        _traces(Settings(trace_ratio=0.5))
