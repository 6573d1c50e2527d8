"""What the calls of a suspended account are answered."""

from __future__ import annotations

from tests.api.conftest import Api, client_of, payload

SENTENCE = "This account is suspended; what is due waits until it is resumed"


async def test_every_call_is_a_403_and_changes_nothing(api: Api) -> None:
    kept = await api.create_id()
    await api.store.changes.suspend(api.account_id)
    for method, path in (
        ("POST", "/schedule"),
        ("POST", "/schedule/batch"),
        ("GET", "/schedule"),
        ("PATCH", "/schedule/sch_x"),
        ("DELETE", f"/schedule/{kept}"),
        ("GET", "/stats/remaining-credits"),
        ("GET", "/no/such/path"),
        ("PUT", "/schedule"),
    ):
        answer = await api.client.request(method, path, json=payload())
        assert (answer.status_code, answer.json()) == (403, {"error": SENTENCE})
    assert (await api.client.get("/readyz")).status_code == 200  # no account's
    await api.store.changes.resume(api.account_id)
    await api.holds(credits=999, waiting={kept})


async def test_a_deleted_accounts_key_is_none(api: Api) -> None:
    await api.store.deletion.delete(api.account_id)
    async with client_of(api.app, api.key) as client:
        answer = await client.get("/stats/remaining-credits")
    assert (answer.status_code, answer.json()) == (401, {"error": "Invalid or inactive API key"})
