"""Keys and accounts are managed by the command line; every API process knows at once."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.servers import Customer, Deployment

URL = "https://example.com/hook"


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    """Two APIs and no worker."""
    with Deployment() as running:
        running.api()
        running.api()
        yield running
        assert running.problems() == []


def test_a_deactivated_key_is_refused_by_every_api_on_the_very_next_request(
    deployment: Deployment,
) -> None:
    account = json.loads(
        deployment.command("account", "create", "acme", "--credits", "9", "--plan", "pro", "--json")
    )
    keys = [
        json.loads(deployment.command("key", "create", "acme", "--name", name, "--json"))
        for name in ("first", "second")
    ]
    first, second = (
        [Customer(api.base_url, key["key"]) for api in deployment.apis] for key in keys
    )
    try:
        for holder in (*first, *second):
            holder.schedule(URL, due_in_s=3600)
        deployment.command("key", "deactivate", keys[0]["keyId"])
        for holder in first:
            for answer in (holder.post(URL, due_in_s=3600), holder.get("/stats")):
                assert answer.status_code == 401
                assert answer.json() == {"error": "Invalid or inactive API key"}
        for holder in second:
            assert holder.credits() == 5
            assert len(holder.log(status="scheduled")) == 4
        assert account["credits"] == 9
    finally:
        for holder in (*first, *second):
            holder.close()


def test_credits_run_out_and_a_grant_helps_at_once(deployment: Deployment) -> None:
    customer = deployment.customer(credits=2)
    for _ in range(2):
        customer.schedule(URL, due_in_s=3600)
    answer = customer.post(URL, due_in_s=3600)
    assert (answer.status_code, answer.json()) == (402, {"error": "Insufficient credits"})
    deployment.command("account", "grant", customer.account_id, "1")
    customer.schedule(URL, due_in_s=3600)
    assert customer.credits() == 0


def test_nobody_sees_or_cancels_what_is_another_accounts(deployment: Deployment) -> None:
    owner, other = deployment.customer(), deployment.customer()
    schedule_id = owner.schedule(URL, due_in_s=3600)
    assert other.cancel(schedule_id).status_code == 404
    assert other.log() == []
    assert owner.cancel(schedule_id).status_code == 200
