"""One definition, two types: what type checkers see. `make check` runs mypy over this file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, assert_type

from postdate import (
    AsyncPostdate,
    Buffer,
    Created,
    LogEntry,
    Postdate,
    PostdateError,
    Reason,
    Schedule,
)


def _blocking(client: Postdate) -> None:
    assert_type(client.get("sch_1"), Schedule)
    assert_type(client.schedule("u", in_=5, json={"n": 1}), Created)
    assert_type(client.schedule_batch([]), tuple[Created | PostdateError, ...])
    assert_type(client.list(limit=5), Iterator[Schedule])
    assert_type(client.list(status=["executed", "cancelled"]), Iterator[Schedule])
    assert_type(client.logs(status="failed"), Iterator[LogEntry])
    assert_type(client.logs(status=["cancelled", "executed"]), Iterator[LogEntry])
    assert_type(client.credits(), int)
    assert_type(client.with_options(timeout=60), Postdate)
    assert_type(PostdateError("x").reason, Reason | None)
    client.schedule("u", in_=5, reference="order-1", on_existing="replace", max_wait=600)
    client.schedule("u", in_=5, on_existing="drop")  # type: ignore[arg-type]
    client.change("sch_1", on_existing="keep")  # type: ignore[call-arg]
    client.get(5)  # type: ignore[arg-type]
    client.schedule("u", att=5)  # type: ignore[call-arg]
    client.logs(status="faild")  # type: ignore[arg-type]


async def _awaiting(client: AsyncPostdate) -> None:
    assert_type(await client.get("sch_1"), Schedule)
    assert_type(client.with_options(headers={"x-a": "1"}), AsyncPostdate)
    creating = assert_type(client.schedule("u", in_=5), Coroutine[Any, Any, Created])
    await creating
    assert_type(client.list(limit=5), AsyncIterator[Schedule])
    assert_type(client.logs(), AsyncIterator[LogEntry])
    await client.schedule("u", att=5)  # type: ignore[call-arg]
    for _ in client.list():  # type: ignore[attr-defined]
        pass


async def _buffering(client: AsyncPostdate) -> None:
    async with Buffer(client, in_flight=2) as buffer:
        assert_type(await buffer.schedule("u", in_=5), Created)
        await buffer.schedule("u", att=5)  # type: ignore[call-arg]


def test_the_client_imports_nothing_of_the_server_and_no_aiohttp_while_it_blocks() -> None:
    program = (
        "import sys; before = set(sys.modules); from postdate import Postdate;"
        "Postdate('http://127.0.0.1', 'k').close();"
        "print(*{m.partition('.')[0] for m in set(sys.modules) - before})"
    )
    path = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path = {path!r}; {program}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "postdate" in loaded
    server = {"scheduler", "api", "worker", "cli", "msgspec", "redis", "litestar"}
    assert loaded.isdisjoint(server | {"aiohttp"})
