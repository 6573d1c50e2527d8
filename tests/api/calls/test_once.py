"""Idempotency-Key on the creates."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.conftest import CREDITS, Api, bad_fields, payload
from tests.api.errors import refusal_of

HEADER = {"idempotency-key": "k"}


async def create(api: Api, key: str | bytes, content: str) -> httpx.Response:
    value = key if isinstance(key, bytes) else key.encode()
    headers = {b"idempotency-key": value}
    return await api.client.post("/schedule", content=content, headers=headers)


@pytest.mark.parametrize("fields", [{}, {"triggerAt": None, "delay": "1h"}])
async def test_the_same_again_is_answered_as_the_first_time_and_costs_nothing(
    api: Api, fields: dict[str, Any]
) -> None:
    body = json.dumps(payload(**fields))
    first = await create(api, "k", body)
    await asyncio.sleep(0.002)  # the time of a delay is another one
    again = await create(api, "k", body)
    assert first.status_code == again.status_code == 201
    assert again.json() == first.json()
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    await api.holds(credits=CREDITS - 1, waiting={first.json()["scheduleId"]})
    async with api.another() as other:
        theirs = await create(other, "k", body)
        assert "idempotency-replayed" not in theirs.headers
        await other.holds(credits=4, waiting={theirs.json()["scheduleId"]})


async def test_of_many_at_once_one_is_stored_and_the_others_are_replays(api: Api) -> None:
    body = json.dumps(payload())
    answers = await asyncio.gather(*(create(api, "k", body) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    replayed = [answer.headers.get("idempotency-replayed") for answer in answers]
    assert (replayed.count(None), replayed.count("true")) == (1, 49)
    await api.holds(credits=CREDITS - 1, waiting={answers[0].json()["scheduleId"]})


@pytest.mark.parametrize("path", ["/schedule", "/schedule/batch"])
async def test_the_same_key_with_another_body_is_422(api: Api, path: str) -> None:
    first = await create(api, "k", json.dumps(payload()))
    content = json.dumps(payload(targetBody={}))
    answer = await api.client.post(path, content=content, headers=HEADER)
    assert refusal_of(answer) == (
        422,
        "This Idempotency-Key was used with another body before",
        "key_reused",
    )
    await api.holds(credits=CREDITS - 1, waiting={first.json()["scheduleId"]})


async def test_a_replay_is_answered_though_its_time_has_become_too_old(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps(payload(triggerAt=(datetime.now(UTC) - timedelta(hours=20)).isoformat()))
    first = await create(api, "k", body)
    now_ms = api.store.clock.now_ms()
    monkeypatch.setattr(api.store.clock, "now_ms", lambda: now_ms + 10 * 3_600_000)
    assert (await create(api, "new", body)).status_code == 400
    again = await create(api, "k", body)
    assert (again.status_code, again.json()) == (201, first.json())
    assert await api.credits() == CREDITS - 1


@pytest.mark.parametrize("keys", [[b""], [b"a" * 256], [b"a b"], [b"\x7f"], [b"one", b"two"]])
async def test_a_bad_key_or_two_are_a_400_naming_the_header(api: Api, keys: list[bytes]) -> None:
    """Which of two counts, the one who sent them and a proxy between may see differently."""
    headers = [(b"idempotency-key", key) for key in keys]
    for path in ("/schedule", "/schedule/batch"):
        answer = await api.client.post(path, content=json.dumps(payload()), headers=headers)
        assert bad_fields(answer) == ["Idempotency-Key"]
    await api.holds(credits=CREDITS, waiting=set())
