"""A supervised process: started again when it ends, released on request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cli import child as child_module
from cli.child import Child
from tests.servers import until_async


def shell(script: str, output: Path) -> Child:
    return Child("shell", ["/bin/sh", "-c", script], output=output)


async def test_one_that_keeps_ending_is_started_again_and_the_log_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "_FIRST_PAUSE_S", 0.001)
    output = tmp_path / "output"
    child = shell("echo here; exit 3", output)
    with capture_logs() as said:
        await child.start()
        child.keep_alive()
        await until_async(lambda: output.read_text().count("here") >= 4, "four starts")
        await child.stop(grace_s=5)
    assert [(event["child"], event["how"]) for event in said] == [
        ("shell", "ended with exit status 3")
    ]


async def test_one_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    output = tmp_path / "output"
    child = shell("trap '' TERM; echo here; while :; do sleep 0.01; done", output)
    await child.start()
    await until_async(lambda: output.read_text(), "its first word")
    with capture_logs() as said:
        assert not await child.stop(grace_s=0.1)
    assert child.ended == "was killed by signal 9"
    assert [event["event"] for event in said] == ["does not stop, killed"]


@pytest.mark.parametrize(
    ("on_term", "as_asked"), [("exit 0", True), ("exit 3", False), ("kill -9 $$", False)]
)
async def test_it_tells_whether_one_ended_as_asked(
    tmp_path: Path, on_term: str, as_asked: bool
) -> None:
    output = tmp_path / "output"
    child = shell(f"trap '{on_term}' TERM; echo here; while :; do sleep 0.01; done", output)
    await child.start()
    await until_async(lambda: output.read_text(), "its first word")
    assert await child.stop(grace_s=5) is as_asked


async def test_one_that_was_hastened_stays_away_and_has_ended_as_asked(tmp_path: Path) -> None:
    """As has one that never ran."""
    child = shell("trap '' TERM; while :; do sleep 0.01; done", tmp_path / "output")
    assert await child.stop(grace_s=5)
    await child.start()
    child.keep_alive()
    child.hasten()
    await child.wait()
    assert not child.running
    assert child.ended == "was killed by signal 9"
    assert await child.stop(grace_s=5)


async def test_it_inherits_only_what_it_is_given(tmp_path: Path) -> None:
    given, kept = os.pipe()
    output = tmp_path / "output"
    child = Child("shell", ["/bin/sh", "-c", "ls /proc/self/fd"], output=output, pass_fds=(given,))
    await child.start()
    await child.wait()
    listed = output.read_text().split()
    assert str(given) in listed
    assert str(kept) not in listed
    os.close(given)
    os.close(kept)
    await child.stop(grace_s=5)
