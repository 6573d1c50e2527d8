"""Following the log when something is in the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from cli.customer import logs
from cli.customer.logs import Tail
from cli.customer.remote import Remote
from postdate import ConnectionFailed, LogEntry, LogStatus, Postdate, PostdateError

MORNING = datetime(2026, 11, 20, 8, tzinfo=UTC)


def entry(number: int, status: LogStatus) -> LogEntry:
    executed = None if status == "cancelled" else MORNING + timedelta(seconds=number)
    return LogEntry(
        f"inv_{number}", f"sch_{number}", MORNING, MORNING, executed, "http://x", "GET", status,
        200, 1, "",
    )  # fmt: skip


class Log:
    """Stands in for a client: a log that grows, and may fail on the way."""

    def __init__(self, *existing: LogEntry) -> None:
        self.entries = list(existing)
        self.failure: PostdateError | None = None

    def logs(
        self, *, status: Sequence[LogStatus], limit: int | None, **_: str | None
    ) -> Iterator[LogEntry]:
        found = [each for each in reversed(self.entries) if each.status in status]
        yield from found[: 1 if self.failure else limit]
        if self.failure:
            raise self.failure

    @property
    def client(self) -> Postdate:
        return cast("Postdate", self)


def numbers(found: list[LogEntry]) -> list[int]:
    return [int(each.schedule_id[4:]) for each in found]


def test_the_first_look_finds_the_last_few_the_others_all_that_is_new() -> None:
    log = Log(*(entry(n, "completed" if n % 2 else "failed") for n in range(10)))
    tail = Tail(log.client, ("completed", "failed", "cancelled"))
    assert numbers(tail.look(3)) == [7, 8, 9]
    assert tail.look(3) == []
    log.entries += [entry(n, "failed") for n in range(10, 15)] + [entry(15, "cancelled")]
    log.entries.append(entry(16, "completed"))
    assert numbers(tail.look(3)) == [10, 11, 12, 13, 14, 15, 16]
    assert tail.look(3) == []


def skipped(number: int) -> LogEntry:
    first = MORNING + timedelta(hours=number)
    return LogEntry(
        "", "", first, first, None, "http://x", "GET", "skipped", 0, 0, "", missed=2,
        recurring_id="rec_1",
    )  # fmt: skip


def test_times_that_were_missed_are_told_apart_though_they_have_no_id() -> None:
    log = Log(skipped(1))
    tail = Tail(log.client, ("skipped", "failed"))
    assert tail.look(3) == [skipped(1)]
    log.entries += [entry(1, "failed"), skipped(2)]
    assert tail.look(3) == [entry(1, "failed"), skipped(2)]


def test_one_that_is_stopped_ends_as_its_last_attempt_did_and_is_shown() -> None:
    log = Log(entry(1, "retrying"))
    tail = Tail(log.client, ("retrying", "failed"))
    assert numbers(tail.look(5)) == [1]
    log.entries.append(entry(1, "failed"))
    assert [each.status for each in tail.look(5)] == ["failed"]


def test_all_is_all_that_has_ended() -> None:
    """A schedule that waits stands before all entries, and would stop every look."""
    log = Log(entry(1, "cancelled"), entry(2, "scheduled"))
    tail = Tail(log.client, ("failed", "all"))
    assert numbers(tail.look(5)) == [1]


def test_a_look_that_fails_half_way_loses_nothing() -> None:
    log = Log(entry(1, "completed"))
    tail = Tail(log.client, ("completed", "failed"))
    assert numbers(tail.look(5)) == [1]
    log.entries += [entry(2, "completed"), entry(3, "failed")]
    log.failure = ConnectionFailed("away")
    with pytest.raises(ConnectionFailed):
        tail.look(5)
    log.failure = None
    assert numbers(tail.look(5)) == [2, 3]


def test_it_rests_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(logs, "_pause", rest)
    logs._follow(Remote(cast("Any", None), True, ""), Tail(Log().client, ("failed",)), 10)
    assert rests == [logs._EVERY_S] * 3
