"""What the client's README shows does what it says, against a real Postdate."""

from __future__ import annotations

import asyncio
import re
import textwrap
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from postdate import AsyncPostdate, Buffer, Postdate
from tests.support.customer import Customer
from tests.support.processes import ROOT
from tests.support.servers import Deployment, Receiver

_README = (ROOT / "clients/python/README.md").read_text()
_SHOWN = re.findall(r"```python\n(.*?)```", _README, re.DOTALL)
_RUN = [each.replace('"http://127.0.0.1:8000", "pd_…"', "") for each in _SHOWN]
BLOCKING, COPYING, AWAITING, REPLACING, LIMITING, RECURRING, REPORTING, VERIFYING, BUFFERING = _RUN


@pytest.fixture(autouse=True)
def customer(working: Deployment, monkeypatch: pytest.MonkeyPatch) -> Customer:
    """Whom the environment names."""
    customer = working.customer()
    monkeypatch.setenv("POSTDATE_URL", customer.base_url)
    monkeypatch.setenv("POSTDATE_API_KEY", customer.key)
    return customer


def run(shown: str, **names: Any) -> Any:
    """Runs it as the body of a coroutine function; what it returns."""
    exec("async def shown():\n" + textwrap.indent(shown, "    "), names)
    return asyncio.run(names["shown"]())


def test_what_it_shows_first_is_one_schedule_that_was_cancelled(customer: Customer) -> None:
    run(BLOCKING)
    [entry] = customer.get("/stats/logs").json()["logs"]
    assert (entry["status"], entry["targetUrl"]) == ("cancelled", "https://example.com/hook")


def test_a_copy_cancels_what_waits_and_says_of_each_id_what_became_of_it(
    customer: Customer, capsys: pytest.CaptureFixture[str]
) -> None:
    made = customer.schedule("https://example.com/hook", 3600)
    run(COPYING, Postdate=Postdate)
    cancelled, unknown = capsys.readouterr().out.splitlines()
    assert cancelled.startswith(f"{made} Cancelled(")
    assert unknown == "order-17 There is no such schedule"


def test_the_asynchronous_client_lists_what_it_made(capsys: pytest.CaptureFixture[str]) -> None:
    run(AWAITING, AsyncPostdate=AsyncPostdate)
    assert capsys.readouterr().out.endswith(" https://example.com/hook\n")


def test_a_reminder_that_is_put_off_is_one_schedule_for_one_credit(
    customer: Customer, capsys: pytest.CaptureFixture[str]
) -> None:
    before = customer.credits()
    run(REPLACING, Postdate=Postdate)
    assert capsys.readouterr().out == "cart-17 {'items': 3} True\n"
    assert customer.credits() == before - 1


def test_a_lane_is_set_paused_and_cleared(capsys: pytest.CaptureFixture[str]) -> None:
    run(LIMITING, Postdate=Postdate)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["paused 10 1", "partner-b True B migrates", "1"]


def test_a_recurring_schedule_is_set_triggered_and_deleted(
    customer: Customer, capsys: pytest.CaptureFixture[str]
) -> None:
    """At an hour that does not come meanwhile."""
    before, new_york = customer.credits(), ZoneInfo("America/New_York")
    hour = (datetime.now(new_york).hour + 12) % 24
    run(RECURRING.replace("0 9 * * 1-5", f"0 {hour} * * 1-5"), Postdate=Postdate)
    described, *listed, times, left = capsys.readouterr().out.splitlines()
    words, next_at = described.split(" on weekdays, New York ")
    at = datetime.fromisoformat(next_at).astimezone(new_york)
    assert (words, at.hour, at.minute) == (f"At {hour:02}:00", hour, 0)
    *triggered, of_the_rule = listed  # a worker may have sent what was triggered
    assert of_the_rule == f"{next_at} {next_at} False"
    assert [re.sub("20.*00:00", "now", each) for each in triggered] in ([], ["None now True"])
    assert times.count("datetime.datetime(") == 2
    assert int(left) == before - 1 == customer.credits()


def test_a_callback_is_named_for_one_and_for_all(
    customer: Customer, capsys: pytest.CaptureFixture[str]
) -> None:
    run(REPORTING, Postdate=Postdate)
    assert capsys.readouterr().out == "https://example.com/ended executed None\n"
    assert customer.get("/account").json()["callbackUrl"] == "https://example.com/failed"


def test_what_a_buffer_collects_arrives_and_a_target_believes_it(receiver: Receiver) -> None:
    due = datetime.now(UTC) + timedelta(milliseconds=200)
    orders = [
        SimpleNamespace(url=receiver.url + "/order", due=due, body={"n": n}) for n in range(50)
    ]
    run(BUFFERING, asyncio=asyncio, AsyncPostdate=AsyncPostdate, Buffer=Buffer, orders=orders)
    request, *others = receiver.wait_for(50, "/order")
    assert len(others) == 49
    with Postdate() as postdate:
        secret = postdate.signing()[0].secret
    names = {"secret": secret, "Response": lambda status: status}
    assert run(VERIFYING, request=request, **names) is None
    forged = SimpleNamespace(headers=request.headers, body=b"another")
    assert run(VERIFYING, request=forged, **names) == 401
