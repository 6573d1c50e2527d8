"""What the calls of a suspended account are answered."""

from __future__ import annotations

import pytest

from tests.api.conftest import Api, client_of, payload

SENTENCE = "This account is suspended; what is due waits until it is resumed"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/schedule"),
        ("POST", "/schedule/batch"),
        ("GET", "/schedule"),
        ("PATCH", "/schedule/sch_x"),
        ("GET", "/stats/remaining-credits"),
        ("GET", "/no/such/path"),
        ("PUT", "/schedule"),
    ],
)
async def test_every_call_is_a_403_and_changes_nothing(api: Api, method: str, path: str) -> None:
    kept = await api.create_id()
    await api.store.changes.suspend(api.account_id)
    answer = await api.client.request(method, path, json=payload())
    assert (answer.status_code, answer.json()) == (403, {"error": SENTENCE})
    cancelled = await api.client.delete(f"/schedule/{kept}")
    assert cancelled.status_code == 403
    await api.store.changes.resume(api.account_id)
    await api.holds(credits=999, waiting={kept})


async def test_health_is_nobodys_in_particular(api: Api) -> None:
    await api.store.changes.suspend(api.account_id)
    assert (await api.client.get("/readyz")).status_code == 200


async def test_a_deleted_accounts_key_is_none(api: Api) -> None:
    await api.store.deletion.delete("first")
    async with client_of(api.app, api.key) as client:
        answer = await client.get("/stats/remaining-credits")
    assert (answer.status_code, answer.json()) == (401, {"error": "Invalid or inactive API key"})
