"""Each method of the TypeScript SDK."""

from __future__ import annotations

import json

from tests.client.typescript.conftest import Node
from tests.qstash.sdks.conftest import base_url
from tests.support.customer import Customer
from tests.support.receiver import Receiver


def test_every_method_does_what_it_says(sdk: Node, customer: Customer, receiver: Receiver) -> None:
    receiver.answer("/gone", status=404, body=b"404 Not Found")
    job = {"url": base_url(customer), "token": customer.key, "target": receiver.url}
    [published, *queued] = json.loads(sdk("every_method.mjs", json.dumps(job)))
    [got] = receiver.wait_for(1, "/published")
    assert (got.method, got.body) == ("PATCH", b"as it is")
    assert (got.headers["x-own"], got.headers["content-type"]) == ("yes", "text/x-own")
    assert got.headers["upstash-message-id"] == published
    assert got.headers["upstash-label"] == "a,b"
    bodies = {m.headers["upstash-message-id"]: m.body for m in receiver.wait_for(2, "/queued")}
    assert bodies == {queued[0]: b"1", queued[1]: b"2"}
