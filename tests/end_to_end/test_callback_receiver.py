"""The receiver of docs/reference/callbacks.md, run as it stands there, beside a real Postdate."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from standardwebhooks.webhooks import Webhook

from tests.support import children
from tests.support.customer import Customer
from tests.support.processes import ROOT
from tests.support.servers import Deployment, Receiver, free_port, until

_PAGE = (ROOT / "docs/reference/callbacks.md").read_text()
[_SHOWN] = re.findall(r"```python\n(.*?)```", _PAGE.partition("## A receiver")[2], re.DOTALL)


class Orders:
    """The receiver's process, and what it has stored."""

    def __init__(self, directory: Path, secret: str) -> None:
        self.port, self.secret = free_port(), secret
        text = _SHOWN.replace("9000", str(self.port)).replace('"whsec_…"', f'"{secret}"')
        self.process = children.start(
            [sys.executable, "-c", text], forked=False, cwd=directory, stderr=subprocess.DEVNULL
        )
        self._path = directory / "orders.db"
        until(self._listens)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/ended"

    @property
    def ended(self) -> list[tuple[str, str]]:
        return sqlite3.connect(self._path).execute("SELECT * FROM ended").fetchall()

    def _listens(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0

    def gets(self, webhook_id: str, body: bytes, secret: str | None = None) -> int:
        now = datetime.now(UTC)
        headers = {
            "webhook-id": webhook_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(secret or self.secret).sign(
                webhook_id, now, body.decode()
            ),
        }
        return httpx.post(self.url, content=body, headers=headers).status_code


@pytest.fixture(scope="module")
def customer(working: Deployment) -> Customer:
    return working.customer()


@pytest.fixture
def orders(customer: Customer, tmp_path: Path) -> Iterator[Orders]:
    [secret] = customer.get("/signing").json()["secrets"]
    made = Orders(tmp_path, secret["secret"])
    yield made
    made.process.kill()
    made.process.wait()


def test_an_end_is_noted_once_however_often_it_is_reported(
    customer: Customer, orders: Orders, receiver: Receiver
) -> None:
    target = receiver.answer("/broken", status=404)
    made = customer.schedule(target, callbackUrl=orders.url, reference="order-17")
    until(lambda: orders.ended == [("order-17", "failed")])
    path = f"/schedule/{made}"
    until(lambda: customer.get(path).json()["callback"]["status"] == "delivered")
    with httpx.Client(base_url=customer.base_url, headers=customer.headers) as http:
        assert http.post(f"{path}/callback").status_code == 202
    until(lambda: customer.get(path).json()["callback"]["status"] == "delivered")
    assert orders.ended == [("order-17", "failed")]


def test_what_is_not_signed_or_reports_no_end_changes_nothing(orders: Orders) -> None:
    report = json.dumps({"type": "schedule.completed"}).encode()
    assert orders.gets("cbk_1", report) == 401
    assert orders.gets("cbk_1", report, "whsec_" + 43 * "A" + "=") == 401
    assert orders.gets("inv_1", b"its own request") == 204
    assert orders.ended == []
