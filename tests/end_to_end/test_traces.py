"""A trace from the create, over the fire, to the target and to the collector of spans."""

from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.servers import Customer, PostdateProcess, Receiver

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_the_fire_of_a_sampled_create_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as target, Receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with PostdateProcess(trace_ratio=0) as up, Customer(up.base_url, up.api_key) as customer:
            customer.headers["traceparent"] = f"00-{TRACE}-{SPAN}-01"
            customer.outcome(customer.schedule(f"{target.url}/traced"))
            del customer.headers["traceparent"]
            customer.outcome(customer.schedule(f"{target.url}/plain"))
            assert up.stop() == 0  # the rest is sent at the end
        [traced], [plain] = target.at("/traced"), target.at("/plain")
        assert "traceparent" not in plain.headers
        _, trace_id, span_id, flags = traced.headers["traceparent"].split("-")
        assert flags == "01"
        assert trace_id != TRACE
        spans = [
            span
            for received in collector.at("/v1/traces")
            for of in ExportTraceServiceRequest.FromString(received.body).resource_spans
            for scope in of.scope_spans
            for span in scope.spans
        ]
        [span] = spans
        assert (span.trace_id.hex(), span.span_id.hex()) == (trace_id, span_id)
        assert [link.trace_id.hex() for link in span.links] == [TRACE]
