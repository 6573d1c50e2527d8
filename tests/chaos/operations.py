"""What holds of replays, of a hold, and of what requests are signed with. Pure."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

from tests.chaos.evidence import SLACK_MS, Case, Story, woke_up
from tests.chaos.history import Arrival, Secret, to_ms

# Schedules claimed before a hold go out so long after it, if nothing is slow.
_CLAIMED_MS = 1000
# A rotation holds everywhere within so long.
_ROTATED_MS = 5000


def is_replayed_as_asked(_: Case, story: Story) -> list[str] | None:
    """In bulk it is replayed once, and every replay has a call that asked for it."""
    if not story.replays and not story.replayed:
        return None
    told = {new for _, new in story.replays if new}
    in_bulk = {new for call, new in story.replays if new and call.invoked.call == "replay many"}
    asked = {call.invoked.key or call.name for call, _ in story.replays if call.result == "unknown"}
    untold = story.replayed.keys() - told
    found = [f"it was replayed in bulk as {', '.join(sorted(in_bulk))}"] * (len(in_bulk) > 1)
    if len(untold) > len(asked):
        found.append(f"it was replayed as {', '.join(sorted(untold))}, which nobody asked for")
    if told and story.entry is not None and story.entry.status == "scheduled":
        found.append("it was replayed, and has not ended")
    return found


def is_held_back(case: Case, story: Story) -> list[str] | None:
    """While the service is on hold nothing goes out but what had been claimed before."""
    holds = [outage for outage in case.outages if outage.what == "on hold"]
    if not holds or not story.arrivals:
        return None
    return [
        f"attempt {arrival.attempt} arrived {arrival.at_ms - hold.began_ms:.0f} ms into a hold"
        for hold in holds
        for number, arrival in enumerate(story.arrivals)
        if hold.began_ms + _CLAIMED_MS < arrival.at_ms < hold.healed_ms
        and not case.cost_a_lease(hold.began_ms, arrival.at_ms)
        and not _follows(story, number)
    ]


def is_signed(case: Case, story: Story) -> list[str] | None:
    """Each request is signed with secrets that were good, and with the newest, if that is not of
    the last few seconds."""
    if not story.arrivals or not case.secrets:
        return None
    found = []
    for arrival in story.arrivals:
        good = [secret for secret in case.secrets if _has_signed(secret, arrival)]
        name = f"attempt {arrival.attempt}"
        if len(good) < len(arrival.signed[2].split()) or not good:
            found.append(f"{name} has a signature of no secret")
            continue
        spare_ms = _ROTATED_MS + SLACK_MS
        if woke_up(case, arrival.at_ms - SLACK_MS, arrival.at_ms):
            continue
        ends_ms = [to_ms(each.expires_at) + spare_ms for each in good if each.expires_at]
        if any(arrival.at_ms > each for each in ends_ms):
            found.append(f"{name} is signed with a secret that had ended")
        settled = [s for s in case.secrets if to_ms(s.created_at) + spare_ms < arrival.at_ms]
        newest = max(settled, key=lambda secret: to_ms(secret.created_at), default=None)
        made_ms = max(to_ms(secret.created_at) for secret in good)
        if newest is not None and made_ms < to_ms(newest.created_at):
            found.append(f"{name} is not signed with the newest secret")
    return found


def _has_signed(secret: Secret, arrival: Arrival) -> bool:
    message_id, moment, signatures = arrival.signed
    key = b64decode(secret.secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{message_id}.{moment}.".encode(), hashlib.sha256)
    return f"v1,{b64encode(digest).decode()}" in signatures.split()


def _follows(story: Story, number: int) -> bool:
    """Whether it is the second sending of what a target reset."""
    return number > 0 and story.arrivals[number].at_ms - story.arrivals[number - 1].at_ms < SLACK_MS
