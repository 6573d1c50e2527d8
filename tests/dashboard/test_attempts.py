"""The attempts of a request as a line: what it draws, and that it only says what the log proves."""

from __future__ import annotations

import re
from typing import Any

import pytest

from api.dashboard.requests.attempt_line import AttemptLine, attempt_line
from scheduler.models import LogEntry, LogStatus
from tests.dashboard.conftest import Browser

DUE_MS = 1_800_000_000_000


def tried(at_ms: int, late_ms: int | None, took_ms: int, code: int = 503, **more: Any) -> LogEntry:
    """An attempt that was recorded so long after the first due."""
    next_ms = more.pop("next_ms", None)
    status = LogStatus.COMPLETED if code == 200 else LogStatus.FAILED
    given = {"attempt": 1, "scheduled_at_ms": DUE_MS, "error_message": "" if code else "Timeout"}
    return LogEntry(
        schedule_id="sch_1",
        created_at_ms=DUE_MS,
        executed_at_ms=DUE_MS + at_ms,
        url="https://example.com/",
        method="POST",
        status=status if next_ms is None else LogStatus.RETRYING,
        status_code=code,
        response_time_ms=took_ms,
        at_ms=DUE_MS + at_ms,
        lateness_ms=late_ms,
        next_attempt_at_ms=None if next_ms is None else DUE_MS + next_ms,
        **(given | more),
    )


def line(*entries: LogEntry, **more: int) -> AttemptLine:
    drawn = attempt_line(entries, **{name: DUE_MS + ms for name, ms in more.items()})
    assert drawn is not None
    return drawn


def words(drawn: AttemptLine) -> list[str]:
    return [gap.words for gap in drawn.gaps]


FIRST = tried(10, 2, 8, next_ms=10_010)
SECOND = tried(10_030, 0, 20, 200, attempt=2)


@pytest.mark.parametrize(
    ("entries", "more", "told"),
    [
        ([tried(10, 2, 8, 200)], {}, [""]),
        ([FIRST, SECOND], {}, ["", "waited 10 s"]),
        ([tried(40_020, 40_000, 20)], {}, ["late 40 s"]),
        ([FIRST, tried(13_020, 3000, 10, attempt=2)], {}, ["", "waited 10 s, late 3 s"]),
        ([FIRST, tried(10_030, 0, 20, attempt=4)], {}, ["", "waited 10 s, 2 without outcome"]),
        ([FIRST], {"next_ms": 10_010}, ["", "waits"]),
        ([FIRST], {"stopped_ms": 4000}, ["", "stopped"]),
        ([tried(5010, 2, 8)], {}, ["", "recorded after 5 s"]),
        ([tried(12_000, None, 20, 0)], {}, [""]),  # nothing was sent: since when is not kept
        # In a lane lateness counts from its slot.
        ([tried(60_030, 3, 20, lane="invoices")], {}, ["1 min in its lane"]),
        (
            [FIRST, tried(90_010, 0, 10, attempt=2, scheduled_at_ms=DUE_MS + 90_000)],
            {},
            ["", "rescheduled, waited 1 min 30 s"],
        ),
    ],
)
def test_gaps_say_what_the_log_proves(
    entries: list[LogEntry], more: dict[str, int], told: list[str]
) -> None:
    assert words(line(*entries, **more)) == told


def test_it_is_to_scale_from_the_first_due_to_the_end() -> None:
    drawn = line(tried(10_000, 5000, 5000, next_ms=40_000), tried(50_000, 0, 10_000, attempt=2))
    assert [(dot.begun, dot.x) for dot in drawn.dots] == [(10.0, 20.0), (80.0, 100.0)]
    assert [(gap.x, gap.width, gap.late) for gap in drawn.gaps] == [(0, 10, 10), (20, 60, 0)]
    assert (drawn.whole_ms, drawn.late_ms, drawn.has_ended) == (50_000, 5000, True)


def test_a_clock_set_back_draws_nothing_outside() -> None:
    drawn = line(tried(-5000, 2, 8, next_ms=-4000), tried(-9000, 2, 8, attempt=2))
    places = [(dot.begun, dot.x) for dot in drawn.dots]
    places += [(gap.x, gap.x + gap.width) for gap in drawn.gaps]
    assert all(0 <= begins <= ends <= 100 for begins, ends in places)


def test_answers_that_stand_too_near_share_their_words() -> None:
    drawn = line(*series([(3, 503), (1000, 503), (2000, 503), (60_000, 0), (100_000, 200)]))
    told = [("3 × 503", ""), ("timeout", "+2 ms"), ("200", "")]  # noqa: RUF001
    assert [(label.words, label.late) for label in drawn.answers] == told
    crowd = line(*series([(3 + n, 503 - n % 2) for n in range(0, 40, 3)]))
    assert all(0 <= label.x <= 100 for label in crowd.answers)
    assert crowd.answers[-1].words.endswith("attempts")


def series(answers: list[tuple[int, int]]) -> list[LogEntry]:
    """Each 2 ms late, and answered within 1 ms."""
    later = [*[ms - 3 for ms, _ in answers[1:]], None]
    return [
        tried(ms, 2, 1, code, attempt=number, next_ms=next_ms)
        for number, ((ms, code), next_ms) in enumerate(zip(answers, later, strict=True), 1)
    ]


async def test_the_panel_has_the_line_and_each_dot_its_attempt(browser: Browser) -> None:
    schedule_id = await browser.schedule(-1000, retries=3, reference="order-17")
    for _ in range(2):
        await browser.end(503, again_in_ms=-1)
    await browser.end(200)
    text = await browser.text(f"/requests/{schedule_id}")
    dots = re.findall(r'<a class="(\w+)" href="#(attempt-[^"]+)"', text)
    assert dots == [(kind, f"attempt-{n}-facts") for n, kind in enumerate(KINDS, 1)]
    for number, (_, facts) in enumerate(dots, 1):
        [shown] = re.findall(rf'<dl class="facts" id="{facts}">(.*?)</dl>', text, re.DOTALL)
        assert f"Postdate-Attempt: <bdi>{number}</bdi>" in shown
        assert "Postdate-Reference: <bdi>order-17</bdi>" in shown
    one = await browser.text(f"/requests/{await browser.execute()}")
    assert ("attempt-line" in one, "<h3>Attempts</h3>" in one) == (True, False)
    assert "attempt-line" not in await browser.text(f"/requests/{await browser.schedule()}")


KINDS = ("failed", "failed", "completed")


async def test_what_its_owner_stops_ends_there(browser: Browser) -> None:
    schedule_id = await browser.schedule(-1000, retries=3)
    await browser.end(503, again_in_ms=3_600_000)
    assert "until the next attempt" in await browser.text(f"/requests/{schedule_id}")
    await browser.cancel(schedule_id)
    text = await browser.text(f"/requests/{schedule_id}")
    assert ("until it ended" in text, text.count('data-attempt="')) == (True, 1)


async def test_a_lane_that_holds_it_says_so(browser: Browser) -> None:
    waiting = await browser.schedule(lane="invoices")
    path = f"/requests/{waiting}"
    assert 'class="status paused"' not in await browser.text(path)
    await browser.write("/lanes/invoices/pause", back="/dashboard/lanes")
    [row] = re.findall(r"<dt>Lane</dt>(.*?)</dd>", await browser.text(path), re.DOTALL)
    assert 'class="status paused"' in row
