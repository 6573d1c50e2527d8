"""What must hold of references whose creates all have onExisting. Pure."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from tests.chaos.history import Asked, to_ms
from tests.chaos.verdict.evidence import SLACK_MS, Call, Case, tag_of

# A schedule that a worker gives back may wait beside a newer one, until it goes out.
SEVERAL_WAIT = 409


class Looked(NamedTuple):
    """How much a book looked at, and a sentence for each breach."""

    looked_at: int
    breaches: list[str]


class _Placed(NamedTuple):
    """One create that was answered with a schedule; `place` is its place in a batch."""

    call: Call
    place: int
    asked: Asked
    schedule_id: str

    @property
    def existing(self) -> bool:
        return self.call.answered is not None and self.place in self.call.answered.existing

    @property
    def kept(self) -> bool:
        return self.asked.on_existing == "keep" and self.existing


class _Span(NamedTuple):
    """When a request took effect: not before it first left, and by its first answer."""

    first_ms: float
    last_ms: float


def shared(case: Case) -> Looked:
    """No second one is stored while one waits. A schedule has the request of the last create that
    was accepted for it, and that is what arrived."""
    wanted = {a.tag: a for call in case.calls for a in call.invoked.asked if a.on_existing}
    stands = {e.schedule_id: tag_of(e.target_url) for e in case.account.log}
    placed = _placed(case)
    found = _several(case, wanted) + _beside(case, placed, wanted)
    return Looked(len(placed), found + _superseded(case, placed, stands) + _gone(case, stands))


def _several(case: Case, wanted: dict[str, Asked]) -> list[str]:
    tags = [tag_of(e.target_url) for e in case.account.log if e.status == "scheduled"]
    waiting = Counter(wanted[tag].reference for tag in tags if tag in wanted)
    return [f"{count} wait with {reference}" for reference, count in waiting.items() if count > 1]


def _beside(case: Case, placed: list[_Placed], wanted: dict[str, Asked]) -> list[str]:
    """Those that were stored though another one waited for certain: all about that had been
    answered, and it was not due for long."""
    spans = _spans(case)
    return [
        f"{each.call.name} stored {each.schedule_id}, and {entry.schedule_id} waited"
        for each in placed
        if not each.existing
        for entry in case.account.log
        if (tag := tag_of(entry.target_url)) in wanted
        and wanted[tag].reference == each.asked.reference
        and spans[tag].last_ms < spans[each.asked.tag].first_ms
        and to_ms(entry.scheduled_at) > spans[each.asked.tag].last_ms + SLACK_MS
        and not any(
            cancel.invoked.wall_ms < spans[each.asked.tag].last_ms
            for cancel in case.stories[tag].cancels
        )
    ]


def _superseded(case: Case, placed: list[_Placed], stands: dict[str, str]) -> list[str]:
    spans, found = _spans(case), []
    for each in placed:
        name, tag = f"{each.call.name} of {each.asked.tag}", stands.get(each.schedule_id)
        if tag is None:
            found.append(f"{name} was told {each.schedule_id}, which is not in the log")
        elif each.kept and tag == each.asked.tag:
            found.append(f"{name} kept {each.schedule_id}, which has its request")
        elif not each.kept and tag != each.asked.tag and not _may_follow(each, tag, spans):
            found.append(f"{name} was accepted for {each.schedule_id}, which has the older {tag}")
    return found


def _may_follow(each: _Placed, tag: str, spans: dict[str, _Span]) -> bool:
    """Whether the request that stands may have come after this one."""
    places = [place for place, asked in enumerate(each.call.invoked.asked) if asked.tag == tag]
    if places:
        return places[0] > each.place
    return tag in spans and spans[tag].last_ms >= spans[each.asked.tag].first_ms


def _gone(case: Case, stands: dict[str, str]) -> list[str]:
    """What arrived for a schedule that has another request now."""
    return [
        f"{tag} arrived for {arrival.schedule_id}, which has the request of {stands_now}"
        for tag, story in case.stories.items()
        if story.replay_of is None and story.asked.on_existing
        for arrival in story.arrivals
        if (stands_now := stands.get(arrival.schedule_id)) != tag
    ]


def _placed(case: Case) -> list[_Placed]:
    return [
        _Placed(call, place, asked, given)
        for call in case.calls
        for place, (asked, given) in enumerate(zip(call.invoked.asked, call.ids, strict=False))
        if asked.on_existing and isinstance(given, str)
    ]


def _spans(case: Case) -> dict[str, _Span]:
    """Of each tag. What was never answered may take effect at any time."""
    spans: dict[str, _Span] = {}
    for call in case.calls:
        answered = call.answered if call.result == "ok" else None
        last_ms = answered.wall_ms if answered else float("inf")
        for asked in call.invoked.asked:
            known = spans.get(asked.tag, _Span(call.invoked.wall_ms, last_ms))
            spans[asked.tag] = _Span(known.first_ms, min(known.last_ms, last_ms))
    return spans
