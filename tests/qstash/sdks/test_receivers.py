"""What the SDKs' documents show for receivers accepts what the door's messages come with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request
from qstash import QStash
from qstash import Receiver as Verifier
from qstash.errors import SignatureError

from tests.client.typescript.conftest import Node
from tests.qstash.sdks.conftest import base_url
from tests.support.customer import Customer
from tests.support.receiver import Received, Receiver

BODY = {"ü": "😀"}


@pytest.fixture
def client(customer: Customer) -> Iterator[QStash]:
    made = QStash(customer.key, base_url=base_url(customer), retry=False)
    yield made
    made.http._client.close()


@pytest.fixture
def sent(client: QStash, receiver: Receiver) -> list[Received]:
    """A message, and its callback."""
    client.message.publish_json(
        url=receiver.answer("/own", body=b"done"), body=BODY, callback=f"{receiver.url}/back"
    )
    return [receiver.wait_for(1, path)[0] for path in ("/own", "/back")]


def as_given(receiver: Receiver, got: Received) -> dict[str, Any]:
    made = {"url": receiver.url + got.path, "method": got.method, "headers": got.headers}
    return {**made, "body": got.body.decode()}


def app_of(client: QStash, base: str) -> FastAPI:
    """As a reader of the SDK's documents writes it."""
    keys = client.signing_key.get()
    receiver = Verifier(current_signing_key=keys.current, next_signing_key=keys.next)
    app = FastAPI()

    @app.post("/{path}")
    async def take(path: str, request: Request) -> dict[str, str]:
        body = (await request.body()).decode()
        signature = request.headers.get("Upstash-Signature", "")
        try:
            receiver.verify(signature=signature, body=body, url=f"{base}/{path}")
        except SignatureError as error:
            raise HTTPException(401, str(error)) from error
        return {"read": body}

    return app


async def test_fastapi_takes_what_is_signed_and_nothing_else(
    client: QStash, receiver: Receiver, sent: list[Received]
) -> None:
    transport = httpx.ASGITransport(app_of(client, receiver.url))
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as user:

        async def status(got: Received, **changed: Any) -> int:
            given = {"headers": got.headers, "content": got.body, **changed}
            return (await user.post(got.path, **given)).status_code

        for got in sent:
            assert await status(got) == 200
            assert await status(got, content=got.body + b" ") == 401
            assert await status(got, headers={}) == 401
        own, back = sent
        swapped = {"headers": {"upstash-signature": back.headers["upstash-signature"]}}
        assert await status(own, **swapped) == 401
        client.signing_key.rotate()
        client.message.publish(url=receiver.url + own.path, body="later")
        later = receiver.wait_for(2, own.path)[1]
        assert await status(later) == 200, "the next key of before signs now"


def test_each_message_has_a_signature_of_its_own(sent: list[Received]) -> None:
    signatures = [got.headers["upstash-signature"] for got in sent]
    assert len(set(signatures)) == 2


def test_nextjs_and_the_others_take_what_is_signed_and_nothing_else(
    sdk: Node, client: QStash, receiver: Receiver, sent: list[Received]
) -> None:
    keys = client.signing_key.get()
    given = [as_given(receiver, got) for got in sent]
    given.append({**given[0], "body": "{}"})
    given.append({**given[0], "url": f"{receiver.url}/other"})
    job = {"keys": {"current": keys.current, "next": keys.next}, "sent": given}
    good = [True, 201, 202, 203]
    told = json.loads(sdk("receivers.mjs", json.dumps(job)))
    bad = ["SignatureError"] * 4
    # Only the first looks at the URL: Next.js' wrappers do where they are given it.
    assert told == [good, good, bad, ["SignatureError", 201, 202, 203]]
