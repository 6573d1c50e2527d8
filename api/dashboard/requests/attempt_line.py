"""The attempts of a request on one line, to scale, from when it was due to when it ended. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from api.dashboard.formats import duration, late, no_answer
from scheduler.models import LogEntry, LogStatus

# A gap is worth its words from here on: acks and clocks make shorter ones.
_WORTHWHILE_MS = 1000
# In percent of the line. The panel's narrowest line is 300 px, where a character takes 6.
_CHARACTER, _DOT = 2.0, 2.0


class Dot(NamedTuple):
    """An attempt that ended `x` percent along; `begun` is where it began."""

    number: int
    kind: str
    begun: float
    x: float
    words: str


class Gap(NamedTuple):
    """From the end of an attempt to the next; of it, `late` percent are lateness. `words` only say
    what the log proves, `shown` whether they fit."""

    x: float
    width: float
    late: float
    words: str
    shown: bool


class Label(NamedTuple):
    """`late` is empty where it does not fit."""

    x: float
    words: str
    late: str


class AttemptLine(NamedTuple):
    """`gaps[i]` comes before `dots[i]`; one more leads to the next attempt, to when their owner
    stopped them, or to when the last one was recorded. `late_ms` is of the first attempt, against
    the first due."""

    dots: list[Dot]
    gaps: list[Gap]
    answers: list[Label]
    whole_ms: int
    has_ended: bool
    late_ms: int | None


class _Attempt(NamedTuple):
    """An entry with when it was due, began and ended: at the latest when it was recorded."""

    entry: LogEntry
    due_ms: int
    begun_ms: int
    ended_ms: int


def attempt_line(
    entries: Sequence[LogEntry], *, stopped_ms: int | None = None, next_ms: int | None = None
) -> AttemptLine | None:
    """Of attempts in order. `stopped_ms`: when their owner stopped the rest; `next_ms`: when the
    next one is due. None without an attempt."""
    if not entries:
        return None
    begins_ms, last_ms = entries[0].scheduled_at_ms, entries[-1].at_ms
    ends_ms = max(last_ms, stopped_ms or 0, next_ms or 0, begins_ms)
    whole_ms = max(1, ends_ms - begins_ms)

    def place(ms: int) -> float:
        return round(min(100.0, max(0.0, 100 * (ms - begins_ms) / whole_ms)), 2)

    dots, gaps, before = list[Dot](), list[Gap](), None
    for entry in entries:
        each = _attempt(entry, before)
        from_ms = before.ended_ms if before else begins_ms
        words = ", ".join(_gap_words(each, before))
        late_from_ms = max(each.due_ms, from_ms) if _is_late(each) else each.begun_ms
        gaps.append(_gap(place(from_ms), place(each.begun_ms), place(late_from_ms), words))
        kind = "completed" if entry.status is LogStatus.COMPLETED else "failed"
        begun, ended = place(each.begun_ms), place(each.ended_ms)
        dots.append(Dot(entry.attempt, kind, begun, ended, _dot_words(entry)))
        before = each
    if before is not None and ends_ms > before.ended_ms:
        words = ", ".join([*_recorded(before), *_after(stopped_ms, next_ms)])
        gaps.append(_gap(dots[-1].x, 100.0, 100.0, words))
    return AttemptLine(
        dots=dots,
        gaps=gaps,
        answers=_answers(dots, entries),
        whole_ms=whole_ms,
        has_ended=next_ms is None,
        late_ms=entries[0].lateness_ms,
    )


def _attempt(entry: LogEntry, before: _Attempt | None) -> _Attempt:
    """In a lane lateness counts from its slot, which is not kept: as where nothing was sent, an
    attempt there began as long before it was recorded as it took."""
    due_ms = entry.scheduled_at_ms
    if before is not None and not _is_moved(entry, before):
        due_ms = before.entry.next_attempt_at_ms or due_ms
    if entry.lateness_ms is None or entry.lane is not None:
        begun_ms, ended_ms = entry.at_ms - entry.response_time_ms, entry.at_ms
    else:
        begun_ms = min(due_ms + entry.lateness_ms, entry.at_ms)
        ended_ms = min(begun_ms + entry.response_time_ms, entry.at_ms)
    earliest_ms = before.ended_ms if before else due_ms
    return _Attempt(entry, due_ms, max(begun_ms, earliest_ms), max(ended_ms, earliest_ms))


def _is_moved(entry: LogEntry, before: _Attempt) -> bool:
    """Whether its owner gave it another time since."""
    return entry.scheduled_at_ms != before.entry.scheduled_at_ms


def _is_late(each: _Attempt) -> bool:
    return each.begun_ms - each.due_ms >= _WORTHWHILE_MS


def _gap_words(each: _Attempt, before: _Attempt | None) -> list[str]:
    """Only what the log proves."""
    found, entry = [], each.entry
    if before is not None:
        found += _recorded(before)
        if _is_moved(entry, before):
            found.append("rescheduled")
        found += _span("waited {}", each.due_ms - before.ended_ms)
        lost = entry.attempt - before.entry.attempt - 1
        if lost > 0:
            found.append(f"{lost} without outcome")
    if entry.lane is None:
        return [*found, *_span("late {}", entry.lateness_ms or 0)]
    return [*found, *_span("{} in its lane", each.begun_ms - each.due_ms)]


def _recorded(one: _Attempt) -> list[str]:
    return _span("recorded after {}", one.entry.at_ms - one.ended_ms)


def _after(stopped_ms: int | None, next_ms: int | None) -> list[str]:
    if next_ms is not None:
        return ["waits"]
    return [] if stopped_ms is None else ["stopped"]


def _span(words: str, ms: int) -> list[str]:
    """Nothing of a short one. Whole seconds, as gaps need no more."""
    return [words.format(duration(round(ms / 1000) * 1000))] if ms >= _WORTHWHILE_MS else []


def _gap(x: float, to: float, late_from: float, words: str) -> Gap:
    width = max(0.0, to - x)
    fits = len(words) * _CHARACTER + 2 * _DOT <= width
    return Gap(x, round(width, 2), round(max(0.0, to - max(late_from, x)), 2), words, fits)


def _answer(one: LogEntry) -> str:
    return str(one.status_code) if one.status_code else no_answer(one.error_message)


def _dot_words(one: LogEntry) -> str:
    sent = "nothing was sent" if one.lateness_ms is None else f"{late(one.lateness_ms)} late"
    return f"Attempt {one.attempt}: {_answer(one)}, {sent}, took {duration(one.response_time_ms)}"


def _answers(dots: Sequence[Dot], entries: Sequence[LogEntry]) -> list[Label]:
    """Above their dots; those too near to each other share one."""
    groups: list[tuple[float, list[str]]] = []
    for dot, each in zip(dots, entries, strict=True):
        groups.append((dot.x, [_answer(each)]))
        while len(groups) > 1 and _right(groups[-2]) > _left(groups[-1]):
            _, answers = groups.pop()
            groups[-1] = groups[-1][0], groups[-1][1] + answers
    both = zip(dots, entries, strict=True)
    lateness = {dot.x: late(each.lateness_ms) for dot, each in both if each.lateness_ms is not None}
    ends = [_left(each) for each in groups[1:]] + [100.0]
    labels = []
    for (x, answers), end in zip(groups, ends, strict=True):
        left = _left((x, answers))
        words, behind = _together(answers), lateness.get(x, "") if len(answers) == 1 else ""
        fits = left + len(f"{words} {behind}") * _CHARACTER + _DOT <= end
        labels.append(Label(left, words, behind if fits else ""))
    return labels


def _together(answers: Sequence[str]) -> str:
    if len(answers) == 1:
        return answers[0]
    same = len(set(answers)) == 1
    return f"{len(answers)} × {answers[0]}" if same else f"{len(answers)} attempts"  # noqa: RUF001


def _left(group: tuple[float, list[str]]) -> float:
    """It begins at its first dot, unless it would reach over the line's end."""
    width = len(_together(group[1])) * _CHARACTER
    return round(max(0.0, min(group[0] - _DOT, 100.0 - width)), 2)


def _right(group: tuple[float, list[str]]) -> float:
    return _left(group) + len(_together(group[1])) * _CHARACTER + _DOT
