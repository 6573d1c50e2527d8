"""A run's three files put together: each call, entry and arrival with its schedule. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tests.chaos.history import (
    REPORTS,
    Account,
    Answered,
    Arrival,
    Event,
    Fault,
    Final,
    Invoked,
    Run,
    Secret,
)
from tests.chaos.verdict.evidence import Call, Case, Outage, Story, tag_of
from tests.chaos.verdict.occurrences import add_occurrences


def cases(events: Iterable[Event], arrivals: Iterable[Arrival], final: Final) -> list[Case]:
    """Each account's case. `arrivals` and `final` may tell of what no client asked for: those
    are the `strangers` of each case."""
    events = list(events)
    run = next(event for event in events if isinstance(event, Run))
    arrived = list(arrivals)
    outages, calls = _outages(events), _calls(events)
    made = []
    for name, account in final.accounts.items():
        own = [call for call in calls if call.invoked.account == name]
        stories = _stories(own)
        _add_replays(stories, own, account)
        rules = add_occurrences(stories, own, account)
        _add_calls(stories, own, account)
        strangers = _add_entries(stories, account)
        away = sorted([*outages, *_pauses(own)], key=lambda each: each.began_ms)
        case = Case(run, name, own, away, account, stories, strangers, final.read_at_ms)
        case.secrets, case.rules, case.keys = _secrets(own, account), rules, _keys(own)
        made.append(case)
    _add_arrivals(made, arrived)
    return made


def _outages(events: list[Event]) -> list[Outage]:
    faults = [event for event in events if isinstance(event, Fault)]
    ends = {fault.number: fault.wall_ms for fault in faults if fault.phase == "end"}
    begun = sorted((f for f in faults if f.phase == "begin"), key=lambda fault: fault.wall_ms)
    return [Outage(f.what, f.target, f.wall_ms, ends.get(f.number, float("inf"))) for f in begun]


def _pauses(calls: list[Call]) -> list[Outage]:
    """When the account may have been paused."""
    return [
        Outage("pause", "account", call.invoked.wall_ms, limits.paused_until_ms)
        for call in calls
        if (limits := call.invoked.limits) is not None
        and limits.paused_until_ms is not None
        and not limits.lane
        and call.result != "fail"
    ]


def _calls(events: list[Event]) -> list[Call]:
    answers = {event.op: event for event in events if isinstance(event, Answered)}
    return [Call(e, answers.get(e.op)) for e in events if isinstance(e, Invoked)]


def _stories(calls: list[Call]) -> dict[str, Story]:
    stories: dict[str, Story] = {}
    for call in calls:
        if call.invoked.call not in ("create", "batch"):
            continue
        for place, asked in enumerate(call.invoked.asked):
            story = stories.setdefault(asked.tag, Story(asked.tag))
            story.creates.append(call)
            given = call.ids[place] if place < len(call.ids) else None
            # With onExisting the schedule may get another request later on: `shared` judges it.
            if isinstance(given, str) and not asked.on_existing:
                story.acknowledged.add(given)
    return stories


def _by_id(stories: dict[str, Story], account: Account) -> dict[str, Story]:
    """Each story by its id, be that known from an answer or from the log alone."""
    found = {each: story for story in stories.values() for each in story.acknowledged}
    found.update(_by_schedule(stories))
    for entry in account.log:
        is_replay = (account.schedules.get(entry.schedule_id) or {}).get("replayOf")
        story_of_tag = stories.get(tag_of(entry.target_url))
        if story_of_tag is not None and not is_replay:
            found.setdefault(entry.schedule_id, story_of_tag)
    return found


def _by_schedule(stories: dict[str, Story]) -> dict[str, Story]:
    """By id, those whose requests do not tell them apart: replays and occurrences."""
    found = {new: each for story in stories.values() for new, each in story.replayed.items()}
    found.update({s.occurrence_id: s for s in stories.values() if s.occurrence_id})
    return found


def _add_replays(stories: dict[str, Story], calls: list[Call], account: Account) -> None:
    """A story for each replay in an answer to a client, or that GET knows: its name has the new
    id. They are taken in the order of their ids, as one may be the replay of another."""
    told: dict[str, str] = {}
    told_by: dict[str, list[Call]] = {}
    for call in calls:
        for of, new in _replayed(call).items():
            told[new] = of
            told_by.setdefault(new, []).append(call)
    bodies = {new: body for new, body in account.schedules.items() if body}
    stored = {new: body["replayOf"] for new, body in bodies.items() if body.get("replayOf")}
    found = _by_id(stories, account)
    for new, of in sorted({**stored, **told}.items()):
        if of in found:
            story = Story(f"{found[of].tag}, replayed as {new}", replay_of=found[of])
            story.creates = told_by.get(new, [])
            story.acknowledged = {new} if new in told else set()
            stories[story.tag] = found[of].replayed[new] = found[new] = story
    waits = [call for call in calls if call.invoked.call in ("replay", "replay many")]
    for call in waits:
        named = {call.invoked.schedule_id, *call.invoked.schedule_ids} - {""}
        given = _replayed(call)
        for of in named | given.keys() if named or call.result != "unknown" else found.keys():
            if of in found:
                found[of].replays.append((call, given.get(of)))


def _replayed(call: Call) -> dict[str, str]:
    """By id, as what it was replayed."""
    if call.invoked.call not in ("replay", "replay many") or call.answered is None:
        return {}
    if call.invoked.door:  # which tells those alone that were replayed
        return dict(zip(call.invoked.schedule_ids, map(str, call.ids), strict=False))
    return {of: new for of, new in call.answered.became.items() if isinstance(new, str)}


def _add_calls(stories: dict[str, Story], calls: list[Call], account: Account) -> None:
    """Adds to each story the calls about it. Of a call for many each has its own part."""
    found = _by_id(stories, account)
    for call in calls:
        invoked = call.invoked
        kinds = {"change": "changes", "cancel": "cancels", "read": "reads", "resend": "resends"}
        story = found.get(invoked.schedule_id)
        if invoked.call in kinds and story is not None:
            became = call.answered.became.get(invoked.schedule_id, "") if call.answered else ""
            part = Call(invoked, call.answered, str(became))
            getattr(story, kinds[invoked.call]).append(part)
        if invoked.call == "cancel many":
            for each, part in _parts(call, found):
                found[each].cancels.append(part)


def _parts(call: Call, found: dict[str, Story]) -> list[tuple[str, Call]]:
    answered = call.answered
    if answered is None or answered.result != "ok":
        return [(each, call) for each in call.invoked.schedule_ids if each in found]
    parts = []
    for each, became in answered.became.items():
        done = isinstance(became, str)
        own = msgspec.structs.replace(answered, result="ok" if done else "fail")
        parts.append((each, Call(call.invoked, own, str(became) if done else "")))
    return [(each, part) for each, part in parts if each in found]


def _secrets(calls: list[Call], account: Account) -> list[Secret]:
    """All credits that the account ever had, each with the earliest time of its answer."""
    told = [each for call in calls if call.answered for each in call.answered.secrets]
    found: dict[str, Secret] = {}
    for secret in [*told, *account.secrets]:
        known = found.setdefault(secret.secret_id, secret)
        if secret.expires_at and (not known.expires_at or secret.expires_at < known.expires_at):
            found[secret.secret_id] = secret
    return list(found.values())


def _keys(calls: list[Call]) -> dict[str, float]:
    """As `Case.keys`."""
    ends_ms: dict[str, float] = {}
    for call in calls:
        if call.answered is None or not call.answered.keys:
            continue
        for key in call.answered.keys:
            ends_ms.setdefault(key, float("inf"))
        known = list(ends_ms)
        for key in known[: known.index(call.answered.keys[0])]:
            ends_ms[key] = min(ends_ms[key], call.answered.wall_ms)
    return ends_ms


def _add_entries(stories: dict[str, Story], account: Account) -> list[str]:
    """Puts to each story what the log and GET know; returns what belongs to none."""
    strangers = []
    known = _by_schedule(stories)
    for entry in account.log:
        story = known.get(entry.schedule_id) or stories.get(tag_of(entry.target_url))
        if entry.status == "retrying" and story is not None:
            story.attempts.append(entry)
        elif story is None:
            strangers.append(f"a log entry of {entry.schedule_id}, {entry.target_url}")
        else:
            story.entries.append(entry)
    for story in stories.values():
        bodies = [account.schedules.get(i) for i in story.acknowledged | story.stored_ids]
        story.body = next((body for body in bodies if body), None)
    return strangers


def _add_arrivals(made: list[Case], arrivals: list[Arrival]) -> None:
    stories = {tag: story for case in made for tag, story in case.stories.items()}
    known = _by_schedule(stories)
    logged = {each: story for story in stories.values() for each in story.stored_ids}
    for arrival in sorted(arrivals, key=lambda each: each.at_ms):
        story = known.get(arrival.schedule_id) or stories.get(tag_of(arrival.path))
        is_report = arrival.path.startswith(REPORTS)
        if is_report:  # an account's has no tag
            story = logged.get(arrival.schedule_id, story)
        if story is None:
            made[0].strangers.append(f"an arrival of {arrival.schedule_id} at {arrival.path}")
        elif is_report:
            story.reports.append(arrival)
        else:
            story.arrivals.append(arrival)
