"""A run judged: every promise over every schedule, every book over every account. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.chaos.history import (
    Arrival,
    Event,
    Fault,
    Final,
    read_arrivals,
    read_final,
    read_history,
)
from tests.chaos.verdict.books import BOOKS
from tests.chaos.verdict.evidence import Case
from tests.chaos.verdict.promises import PROMISES, Promise
from tests.chaos.verdict.stories import cases

_MOST_SHOWN = 8


class Row(msgspec.Struct):
    """One promise: how many it was looked at for, and each breach as a sentence."""

    promise: str
    looked_at: int = 0
    breaches: list[str] = []


class Verdict(msgspec.Struct):
    """The result of a run. `held` is the verdict; `told` describes the run in one line."""

    rows: list[Row]
    told: str

    @property
    def breaches(self) -> list[str]:
        return [breach for row in self.rows for breach in row.breaches]

    @property
    def held(self) -> bool:
        return not self.breaches

    def row(self, promise: str) -> Row:
        return next(row for row in self.rows if row.promise == promise)


def judge(events: Iterable[Event], arrivals: Iterable[Arrival], final: Final) -> Verdict:
    """The verdict on a run."""
    events, arrivals = list(events), list(arrivals)
    found = cases(events, arrivals, final)
    rows = [_promise(title, promise, found) for title, promise in PROMISES]
    for title, book in BOOKS:
        row = Row(title)
        for case in found:
            looked = book(case)
            row.looked_at += looked.looked_at
            row.breaches = row.breaches + [f"{case.name}: {each}" for each in looked.breaches]
        rows.append(row)
    rows.append(Row("`postdate check` finds nothing", 1, list(final.problems)))
    rows.append(Row("healed: all live, and answer", 1, list(final.mishaps)))
    return Verdict(rows, _told(events, arrivals, found))


def judge_directory(directory: Path) -> Verdict:
    """The verdict on what a run left in a directory."""
    return judge(read_history(directory), read_arrivals(directory), read_final(directory))


def table(verdict: Verdict) -> str:
    """The verdict as text: a line a promise, the first breaches of each that was broken."""
    width = max(len(row.promise) for row in verdict.rows)
    lines = [verdict.told, "", f"  {'promise':{width}}  looked at  broken"]
    for row in verdict.rows:
        broken = str(len(row.breaches)) if row.breaches else "-"
        lines.append(f"  {row.promise:{width}}  {row.looked_at:>9,}  {broken:>6}")
    for row in verdict.rows:
        if row.breaches:
            lines += ["", f"  Broken: {row.promise}"]
            lines += [f"    {breach}" for breach in row.breaches[:_MOST_SHOWN]]
            more = len(row.breaches) - _MOST_SHOWN
            lines += [f"    … and {more} more"] * (more > 0)
    return "\n".join(lines)


def _promise(title: str, promise: Promise, found: list[Case]) -> Row:
    row = Row(title)
    for case in found:
        for story in case.stories.values():
            breaches = promise(case, story)
            if breaches is None:
                continue
            row.looked_at += 1
            name = next(iter(sorted(story.stored_ids | story.acknowledged)), "no id")
            row.breaches = row.breaches + [f"{name} ({story.tag}): {each}" for each in breaches]
    return row


def _told(events: list[Event], arrivals: list[Arrival], found: list[Case]) -> str:
    run = found[0].run
    results = Counter(call.result for case in found for call in case.calls)
    faults = sum(1 for e in events if isinstance(e, Fault) and e.phase == "begin")
    stored = sum(len(case.account.log) for case in found)
    calls = sum(results.values())
    return (
        f"seed {run.seed}, {run.store} store, {run.seconds:g} s: {faults} faults; {calls:,} calls "
        f"({results['ok']:,} done, {results['fail']:,} refused, {results['unknown']:,} unknown); "
        f"{stored:,} schedules, {len(arrivals):,} arrivals"
    )
