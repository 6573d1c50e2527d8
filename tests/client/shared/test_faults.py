"""Whatever is lost on the way, a create takes its credits once and makes its schedules once."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from postdate import AsyncPostdate, Buffer, NewSchedule, Postdate
from tests.client.both import Client
from tests.client.shared import CREATES, FAULTS
from tests.client.shared.faulty import Faulty
from tests.support.deployment import Deployment

URL = "https://example.com/hook"
LATER = "9d"
OPTIONS = {"timeout": 2.0, "retry_for": 60.0}
ROWS = [pytest.param(fault, id=fault["name"]) for fault in FAULTS]

# Of an address, a key, the create's name and the ids that it needs: the ids that it made.
Creates = Callable[[str, str, str, list[str]], list[str]]


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    """Without a worker: what is due stays."""
    with Deployment() as deployment:
        deployment.api()
        yield deployment


@pytest.fixture(params=["blocking", "awaiting", "typescript"])
def creates(request: pytest.FixtureRequest) -> Creates:
    if request.param == "typescript":
        return request.getfixturevalue("typescript")  # type: ignore[no-any-return]
    return lambda *job: by_python(request.param, *job)


@pytest.fixture(scope="module")
def typescript(package: Path) -> Iterator[Creates]:
    command = ["node", "test/creates.mjs"]
    with subprocess.Popen(
        command, cwd=package, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdin
        assert driver.stdout

        def create(*job: Any) -> list[str]:
            driver.stdin.write(json.dumps(job) + "\n")
            driver.stdin.flush()
            answered = json.loads(driver.stdout.readline())
            assert "error" not in answered, answered
            return list(answered["ids"])

        yield create
        driver.stdin.close()


def by_python(mode: str, url: str, key: str, create: str, ids: list[str]) -> list[str]:
    new = [NewSchedule(f"{URL}/{number}", delay=LATER) for number in range(3)]
    with Client(mode, url, key, **OPTIONS) as client:
        match create:
            case "schedule":
                return [client.schedule(URL, delay=LATER).schedule_id]
            case "batch":
                return [each.schedule_id for each in client.schedule_batch(new)]
            case "buffer" if isinstance(client.inner, AsyncPostdate):
                return client._runner.run(buffered(client.inner, new))
            case "buffer":  # there is none for the blocking client
                return [client.schedule(each.url, **each.options).schedule_id for each in new]
            case "replay":
                return [client.replay(ids[0]).schedule_id]
            case "replayMany":
                return [each.schedule_id for each in client.replay_many(ids)]
            case "recurring":
                return [client.create_recurring(URL, cron="0 0 1 1 *").schedule_id]
            case "trigger":
                return [client.trigger_recurring(ids[0]).schedule_id]
    raise AssertionError(create)


async def buffered(client: AsyncPostdate, new: list[NewSchedule]) -> list[str]:
    async with Buffer(client) as buffer:
        making = (buffer.schedule(each.url, **each.options) for each in new)
        return [each.schedule_id for each in await asyncio.gather(*making)]


def prepared(real: Postdate, create: str) -> list[str]:
    """The ids that a create needs."""
    if create.startswith("replay"):
        ids = [real.schedule(URL, delay=LATER).schedule_id for _ in range(2)]
        real.cancel_many(ids)
        return ids
    if create == "trigger":
        return [real.create_recurring(URL, cron="0 0 1 1 *").recurring_id]
    return []


@pytest.mark.slow
@pytest.mark.parametrize("fault", ROWS)
def test_a_create_takes_its_credits_once_and_has_its_own_ids(
    deployment: Deployment, creates: Creates, fault: dict[str, Any]
) -> None:
    [api] = deployment.apis

    def kill() -> None:
        api.kill()
        api.start()

    customer = deployment.customer()
    with Postdate(api.base_url, customer.key) as real:
        for create in fault.get("creates", CREATES):
            needed = prepared(real, create)
            before = {each.schedule_id for each in real.list()}
            credits = real.credits()
            with Faulty(api.base_url, fault["steps"], kill) as faulty:
                ids = creates(faulty.url, customer.key, create, needed)
                assert faulty.steps == []
            assert real.credits() == credits - CREATES[create]
            assert sorted({each.schedule_id for each in real.list()} - before) == sorted(ids)
            assert len(ids) == CREATES[create]
