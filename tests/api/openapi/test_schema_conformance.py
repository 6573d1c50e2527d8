"""The API keeps to its own OpenAPI document, whatever is asked of it: schemathesis asks."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis.configuration import storage_directory

from scheduler.callbacks import Callback
from scheduler.models import Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.store import Store
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.api.conftest import URL
from tests.api.letters import BROKEN
from tests.support.servers import Deployment, ValkeyProcess

_CONFIG = Path(__file__).parent / "conformance" / "schemathesis.toml"
_PATIENCE_S = 580  # of a busy machine
# CI asks as often as the file says; elsewhere two operations are enough for the edges of the rules,
# which take most of the time: one with a body, and one with a query; with the same requests at each
# run.
_EXAMPLES = () if os.environ.get("CI") else ("--max-examples", "4", "--generation-deterministic")
_FEWER_EDGES = """
[[operations]]
exclude-operation-id = ["cancelSchedules", "listLogs"]
phases.coverage.enabled = false
"""
# Each part has the operations of its own resources, so that a call finds what others made. No
# process has to ask all of it: this is the longest of all tests.
_EACH = ("--phases", "examples,coverage,fuzzing")
_PARTS = {
    "schedules": (*_EACH, "--include-path-regex", "^/schedule"),
    "recurring": (*_EACH, "--include-path-regex", "^/recurring"),
    "others": (*_EACH, "--exclude-path-regex", "^/(schedule|recurring)"),
    "linked": ("--phases", "stateful"),
}


async def _failed(account_id: str, store: Store) -> str:
    """A schedule that has failed, and its callback too: both can be sent again."""
    request = Request(1, "POST", URL, callback=Callback(URL))
    schedule_id = await store.schedules.create(account_id, request)
    shard = int(account_id.split("_")[1])
    claimed = await store.claims.claim(shard, lease_ms=15_000, most=1)
    acks = [Ack(each, BROKEN, 0) for each in claimed.invocations]
    assert await store.ends.ack(shard, acks) == [1]
    called = await store.claims.claim(shard, lease_ms=15_000, most=1)
    ends = [CallbackAck(each, BROKEN, None) for each in called.invocations]
    assert await store.callbacks.ack(shard, ends) == [1]
    return schedule_id


async def _ruled(account_id: str, store: Store) -> str:
    draft = Draft(Request(0, "POST", URL), Timing(cron="0 9 * * *"))
    return (await store.recurring.create(account_id, draft)).rule.recurring_id


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", _PARTS)
def test_every_answer_is_in_the_document(
    own_valkey: ValkeyProcess, tmp_path: Path, part: str
) -> None:
    """Examples, the edges of every rule, random requests good and bad, and calls that follow from
    one another; their answers' status, headers and body, and that the good ones are accepted and
    the bad ones refused."""
    config = tmp_path / _CONFIG.name
    config.write_text(_CONFIG.read_text() + ("" if os.environ.get("CI") else _FEWER_EDGES))
    with Deployment(own_valkey) as postdate:
        url = postdate.api().base_url
        customer = postdate.customer(credits=100_000)
        ended = postdate.in_store(partial(_failed, customer.account_id))
        kept, deleted = (postdate.in_store(partial(_ruled, customer.account_id)) for _ in range(2))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
                *("run", f"{url}/schema/openapi.json", "--no-color", *_EXAMPLES),
                *_PARTS[part],
                *("--header", f"x-api-key: {customer.key}"),
            ],
            cwd=tmp_path,
            env={
                **os.environ,
                "ENDED_SCHEDULE": ended,
                "KEPT_RULE": kept,
                "DELETED_RULE": deleted,
                # What it once found out about Unicode takes seconds to find out.
                "HYPOTHESIS_STORAGE_DIRECTORY": str(storage_directory().path),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        problems = postdate.problems()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout, done.stdout
    assert problems == []
