"""GET /signing and POST /signing/rotate."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.times import parse_iso8601
from tests.api.conftest import Api
from tests.api.errors import refusal_of

DAY_MS = 86_400_000


async def secrets(api: Api) -> list[dict[str, Any]]:
    answer = await api.client.get("/signing")
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()["secrets"]
    return found


@pytest.mark.parametrize(
    ("body", "kept_ms"),
    [({"keepFor": "1h30m"}, 5_400_000), ({"keepFor": 60}, 60_000), ({}, DAY_MS), (None, DAY_MS)],
)
async def test_a_rotation_keeps_the_one_before(
    api: Api, body: dict[str, Any] | None, kept_ms: int
) -> None:
    [before] = await secrets(api)
    answer = await api.client.post("/signing/rotate", json=body)
    assert answer.status_code == 201
    new, kept = answer.json()["secrets"]
    assert kept == {**before, "expiresAt": kept["expiresAt"]}
    since_ms = parse_iso8601(new["createdAt"])
    assert parse_iso8601(kept["expiresAt"]) == since_ms + kept_ms
    assert new["expiresAt"] is None
    assert await secrets(api) == [new, kept]


async def test_a_fourth_one_is_409(api: Api) -> None:
    for _ in range(2):
        await api.client.post("/signing/rotate", json={"keepFor": "7d"})
    answer = await api.client.post("/signing/rotate", json={"keepFor": "1d"})
    says = "3 signing secrets are valid already: keep older ones for a shorter time, or wait"
    assert refusal_of(answer) == (409, f"{says} until one has ended", "too_many_secrets")


@pytest.mark.parametrize(
    ("content", "field", "says"),
    [
        *(
            (b'{"keepFor":%b}' % each, "keepFor", "It may be at most 7 days.")
            for each in (b'"7d1ms"', b"604801")
        ),
        (b'{"keepFor":-1}', "keepFor", "It must be a duration"),
        (b'{"keep":"1d"}', "keep", "There is no such field."),
    ],
)
async def test_no_rotation_changes_nothing(api: Api, content: bytes, field: str, says: str) -> None:
    before = await secrets(api)
    answer = await api.client.post("/signing/rotate", content=content)
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json()["details"]] == [field]
    assert answer.json()["details"][0]["message"].startswith(says)
    assert await secrets(api) == before
