"""Child processes and their parent: restarts, kills, and the port that a child gets."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from cli.serving.children import Child, Children, TiedChild, supervise, with_metrics_port
from cli.serving.roles import raise_limit
from scheduler.errors import PostdateError, SettingsError
from scheduler.runtime.settings import Settings
from tests.support.servers import until_async


@pytest.mark.parametrize(
    ("on_term", "grace_s", "how"),
    [
        ("exit 0", 5.0, "ended with exit status 0"),
        ("exit 3", 5.0, "ended with exit status 3"),
        ("", 0.1, "was killed by signal 9"),
    ],
)
async def test_it_tells_whether_one_ended_as_asked_and_kills_one_that_does_not_end(
    tmp_path: Path, on_term: str, grace_s: float, how: str
) -> None:
    output = tmp_path / "output"
    script = f"trap '{on_term}' TERM; echo here; while :; do sleep 0.01; done"
    child = Child("shell", ["/bin/sh", "-c", script], output=output)
    await child.start()
    await until_async(lambda: output.read_text(), "its first word")
    assert await child.stop(grace_s) is (on_term == "exit 0")
    assert child.ended == how


@pytest.fixture
def signals_heard_again() -> Iterator[None]:
    """A process of ours hears no signal in its last moments. This one goes on: whatever it started
    would be deaf to SIGTERM, too."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.usefixtures("signals_heard_again")
async def test_what_did_not_end_as_it_should_is_an_error() -> None:
    children = Children()

    async def start(stops: AsyncExitStack) -> None:
        children.faults.append("The worker 2 process ended with exit status 3.")
        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(PostdateError, match=r"^The worker 2 process ended with exit status 3\.$"):
        await asyncio.wait_for(supervise(children, start), 30)


async def test_one_that_refuses_to_start_is_named() -> None:
    children = Children()
    child = TiedChild("worker 1", "worker", Settings(redis_url="redis://127.0.0.1?foo=bar"))
    with pytest.raises(PostdateError, match="worker 1 process ended with exit status 1 before"):
        await children.start([child], 30.0)
    await children.stop()


def test_children_have_the_ports_one_after_the_other_or_none_where_it_is_turned_off() -> None:
    for first, ports in ((9464, [9464, 9465, 9466]), (0, [0, 0, 0])):
        settings = Settings(metrics_port=first)
        assert [with_metrics_port(settings, n).metrics_port for n in range(3)] == ports
    with pytest.raises(SettingsError, match="POSTDATE_METRICS_PORT cannot be 65534"):
        with_metrics_port(Settings(metrics_port=65_534), 2)


@pytest.mark.parametrize("hard", [4096, resource.RLIM_INFINITY])
def test_the_soft_limit_of_open_files_is_raised_where_the_system_grants_it(
    monkeypatch: pytest.MonkeyPatch, hard: int
) -> None:
    asked: list[tuple[int, int]] = []

    def refuse(_: int, limits: tuple[int, int]) -> None:
        asked.append(limits)
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, hard))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_limit()
    assert asked == [(4096 if hard == 4096 else 65_536, hard)]
