"""The examples in JavaScript do what their first line says."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.examples.conftest import EXAMPLES, Examples
from tests.support.servers import Receiver, until

_PACKAGES = EXAMPLES / "node_modules"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _PACKAGES.exists(), reason="needs npm's packages: make examples"),
]


def test_a_reminder_waits_for_the_last_change_of_a_cart(examples: Examples) -> None:
    app = examples.start("node", str(EXAMPLES / "cart.mjs"))
    times = [
        app.call("POST", f"/carts/{cart}/items", json={"item": item}).json()["remindedAt"]
        for cart, item in ((17, "tea"), (17, "milk"), (18, "salt"))
    ]
    assert times[0] < times[1]
    assert len(examples.waiting("cart-17")) == 1
    assert app.call("POST", "/carts/18/checkout").status_code == 204
    assert examples.waiting("cart-18") == []
    examples.bring_forward("cart-17")
    until(lambda: "Remind of cart 17: tea, milk" in app.said)
    assert app.call("POST", "/remind", json={"cart": "17"}).status_code == 401


def test_a_report_is_made_each_night_or_its_failure_reported(
    examples: Examples, receiver: Receiver
) -> None:
    folder = EXAMPLES / "nightly-report"
    next_js = ["node", str(_PACKAGES / "next/dist/bin/next")]
    subprocess.run([*next_js, "build"], cwd=folder, check=True, capture_output=True, timeout=300)
    receiver.answer("/orders", body=json.dumps([1, 2, 3]).encode())
    orders = f"{receiver.url}/orders"
    app = examples.start(*next_js, "start", str(folder), "--port", "9000", ORDERS_URL=orders)
    first, again = (app.call("PUT", "/report").json() for _ in range(2))
    assert (first["unchanged"], again) == (False, {**first, "unchanged": True})
    examples.postdate.trigger_recurring("name:nightly-report")
    until(lambda: "3 orders" in app.said)
    receiver.answer("/orders", status=500)
    made = examples.postdate.trigger_recurring("name:nightly-report")
    until(lambda: examples.postdate.get(made.schedule_id).attempts == 1)
    examples.postdate.change(made.schedule_id, delay=0, retries=1)
    until(lambda: "No report of " in app.said)
    assert app.call("POST", "/report").status_code == 401
