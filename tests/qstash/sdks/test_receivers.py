"""Receivers of both SDKs accept what real workers sign: messages and their callbacks."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request
from qstash import QStash
from qstash import Receiver as Verifier
from qstash.errors import SignatureError
from qstash.receiver import verify_with_key

from tests.client.typescript.conftest import Node
from tests.qstash.sdks.conftest import base_url
from tests.support.customer import Customer
from tests.support.receiver import Received, Receiver
from worker.signatures import GOOD_FOR_S

BODY = {"ü": "😀"}
COUNT = 1000


@pytest.fixture
def client(customer: Customer) -> Iterator[QStash]:
    made = QStash(customer.key, base_url=base_url(customer), retry=False)
    yield made
    made.http._client.close()


@pytest.fixture
def sent(client: QStash, receiver: Receiver) -> list[Received]:
    """A message and its callback, and another that failed, with its failure callback."""
    ways = {
        "callback": f"{receiver.url}/back",
        "failure_callback": f"{receiver.url}/failed",
        "callback_headers": {"X-Whose": "mine"},
    }
    own = (("X-Own", "a"), ("X-Own", "b"))
    for url in (
        receiver.answer("/own", body=b"\xffdone", headers=own),
        receiver.answer("/bad", status=489, body=b"no"),
    ):
        client.message.publish_json(url=url, body=BODY, **ways)
    return [receiver.wait_for(1, path)[0] for path in ("/own", "/back", "/bad", "/failed")]


def test_callbacks_say_what_came_back(sent: list[Received]) -> None:
    own, back, bad, failed = sent
    for message, callback in ((own, back), (bad, failed)):
        assert callback.headers["user-agent"] == "Upstash-QStash"
        assert callback.headers["content-type"] == "application/json"
        message_id = message.headers["upstash-message-id"]
        assert callback.headers["upstash-message-id"] == f"msg_cbk_{message_id[4:]}"
        assert json.loads(callback.body)["sourceMessageId"] == message_id
    assert [each.headers.get("x-whose") for each in sent] == [None, "mine", None, None]
    told = json.loads(back.body)
    assert (told["status"], b64decode(told["body"])) == (200, b"\xffdone")
    assert (told["header"]["X-Own"], "dlqId" in told) == (["a", "b"], False)
    told = json.loads(failed.body)
    assert (told["status"], b64decode(told["body"])) == (489, b"no")
    assert (told["retried"], told["maxRetries"]) == (0, 3)
    assert told["dlqId"] == bad.headers["upstash-message-id"][4:]


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
        own, back, *_ = sent
        swapped = {"headers": {"upstash-signature": back.headers["upstash-signature"]}}
        assert await status(own, **swapped) == 401
        client.signing_key.rotate()
        client.message.publish(url=receiver.url + own.path, body="later")
        later = receiver.wait_for(2, own.path)[1]
        assert await status(later) == 200, "the next key of before signs now"


def test_each_message_has_a_signature_of_its_own(sent: list[Received]) -> None:
    signatures = [got.headers["upstash-signature"] for got in sent]
    assert len(set(signatures)) == 4


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
    assert told == [good] * 4 + [bad, ["SignatureError", 201, 202, 203]]


@pytest.mark.slow
def test_messages_are_verified_over_a_rotation(
    sdk: Node, client: QStash, receiver: Receiver, tmp_path: Path
) -> None:
    """By receivers that know the keys from before it."""

    def publish(numbers: range) -> None:
        made = [{"url": f"{receiver.url}/m?n={n}", "body": f'{{"ü": {n}}}'} for n in numbers]
        client.message.batch(made)

    before = client.signing_key.get()
    publish(range(COUNT // 2))
    receiver.wait_for(COUNT // 4, "/m")
    after = client.signing_key.rotate()
    receiver.wait_for(COUNT // 2, "/m")
    time.sleep(GOOD_FOR_S)  # so long a worker may sign with the key before
    publish(range(COUNT // 2, COUNT))
    given = [as_given(receiver, each) for each in receiver.wait_for(COUNT, "/m")]
    messages = [
        {
            "signature": each["headers"]["upstash-signature"],
            "body": each["body"],
            "url": each["url"],
        }
        for each in given
    ]
    assert len({each["url"] for each in messages}) == COUNT
    verifier, by_first = Verifier(before.current, before.next), 0
    for message in messages:
        verifier.verify(**message)
        for changed in ({"body": message["body"] + " "}, {"url": receiver.url}):
            with pytest.raises(SignatureError):
                verifier.verify(**message | changed)
        try:
            verify_with_key(before.current, **message)
            by_first += 1
        except SignatureError:
            verify_with_key(after.current, **message)
    assert COUNT // 4 <= by_first <= COUNT // 2
    job = tmp_path / "messages.json"
    keys = {"current": before.current, "next": before.next}
    job.write_text(json.dumps({**keys, "messages": messages}))
    assert sdk("verified.mjs", str(job)).strip() == str(COUNT)
