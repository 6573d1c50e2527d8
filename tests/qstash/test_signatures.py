"""Receivers of both SDKs accept what real workers sign, while the keys are rotated."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from qstash import Receiver as Verifier
from qstash.errors import SignatureError
from qstash.receiver import verify_with_key

from scheduler.models import Request
from scheduler.qstash.carried import Carried, pack
from scheduler.store import Store
from tests.client.typescript.conftest import package
from tests.support.servers import Customer, Deployment, Receiver
from worker.signatures import GOOD_FOR_S

__all__ = ["package"]  # a fixture

COUNT, DOOR = 1000, pack(Carried())
_PROGRAM = Path(__file__).parent / "verified.mjs"


def publish(running: Deployment, customer: Customer, url: str, numbers: range) -> None:
    async def make(store: Store) -> None:
        now_ms = time.time_ns() // 1_000_000
        made = [
            Request(now_ms, "POST", f"{url}/m?n={n}", body=f'{{"ü": {n}}}'.encode(), door=DOOR)
            for n in numbers
        ]
        await store.schedules.create_all(customer.account_id, made)

    running.in_store(make)


def keys(running: Deployment, customer: Customer, *, rotate: bool = False) -> list[str]:
    async def read(store: Store) -> list[str]:
        found = await store.signing.door_keys(customer.account_id, rotate=rotate)
        return [each.secret for each in found]

    return running.in_store(read)


@pytest.mark.slow
def test_messages_are_verified_over_a_rotation(receiver: Receiver, package: Path) -> None:
    """By receivers that know the keys from before it."""
    with Deployment() as running:
        running.api()
        running.worker()
        customer = running.customer()
        publish(running, customer, receiver.url, range(COUNT // 2))
        receiver.wait_for(COUNT // 4, "/m")
        before = keys(running, customer)
        after = keys(running, customer, rotate=True)
        receiver.wait_for(COUNT // 2, "/m")
        time.sleep(GOOD_FOR_S)  # so long a worker may sign with the key before
        publish(running, customer, receiver.url, range(COUNT // 2, COUNT))
        sent = receiver.wait_for(COUNT, "/m")
        assert running.problems() == []
    assert after[0] == before[1]
    messages = [
        {
            "signature": each.headers["upstash-signature"],
            "body": each.body.decode(),
            "url": receiver.url + each.path,
        }
        for each in sent
    ]
    assert len({each["url"] for each in messages}) == COUNT
    verifier, by_first = Verifier(*before), 0
    for message in messages:
        verifier.verify(**message)
        with pytest.raises(SignatureError):
            verifier.verify(**message | {"body": message["body"] + " "})
        with pytest.raises(SignatureError):
            verifier.verify(**message | {"url": receiver.url})
        try:
            verify_with_key(before[0], **message)
            by_first += 1
        except SignatureError:
            verify_with_key(after[0], **message)
    assert COUNT // 4 <= by_first <= COUNT // 2
    given = {"current": before[0], "next": before[1], "messages": messages}
    done = subprocess.run(
        ["node", str(_PROGRAM)],
        cwd=package,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(COUNT)
