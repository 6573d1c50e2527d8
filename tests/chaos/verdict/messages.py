"""What must hold of messages of the QStash door: how receivers know them, and how their ends are
reported. All else is as of other schedules. Pure."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from typing import Any
from urllib.parse import urljoin

import msgspec

from tests.chaos.history import NOT_OF_DOOR, Arrival, Entry, answer_to, body_of, to_ms
from tests.chaos.verdict.evidence import SLACK_MS, Case, Story, tag_of, woke_up

# A worker may sign so long with the key before.
_ROTATED_MS = 5000


def is_sent_so(case: Case, story: Story) -> list[str] | None:
    """Each attempt of a message, and of its report, has its one id, the number of retries before it
    and a token that receivers take. Other schedules have none of that, nor has a report to the
    account's URL."""
    found: list[str] = []
    for arrival in story.arrivals:
        name = f"attempt {arrival.attempt}"
        if not story.asked.message:
            found += [f"{name} has {arrival.door}, and is no message"] * _is_of_door(arrival)
            continue
        retried = sum(each.attempt < arrival.attempt for each in story.attempts)
        expected = (f"msg_{arrival.schedule_id[4:]}", str(retried))
        if arrival.door[:2] != expected:
            found.append(f"{name} has {arrival.door[:2]}, not {expected}")
        if arrival.body != _body(story):
            found.append(f"{name} has the body {arrival.body!r}")
        found += _signed_wrongly(case, story, name, arrival)
    for arrival in story.reports:
        name = f"callback {arrival.attempt}"
        if not story.asked.is_told_as_message:
            found += [f"{name} has {arrival.door}, and is a usual one"] * _is_of_door(arrival)
            continue
        if arrival.door[0] != f"msg_cbk_{arrival.schedule_id[4:]}":
            found.append(f"{name} has {arrival.door[0]}")
        found += _signed_wrongly(case, story, name, arrival)
    if story.asked.is_told_as_message and len({each.body for each in story.reports}) > 1:
        found.append("its callback changed between two attempts")
    return found if story.arrivals or story.reports else None


def said_wrongly(entry: Entry, story: Story, report: dict[str, Any]) -> list[str]:
    """A report tells of the end, of the message, and of the whole answer, if one came. The store
    drops that answer if the message is cancelled between two attempts."""
    final = story.final or story.asked
    answer = answer_to(final.path, entry.attempt) if final.asks and entry.status_code else ""
    if final.asks and story.cancels and not report.get("body"):
        answer = ""
    said = answer if entry.status_code else entry.error_message
    expected = {
        "status": entry.status_code,
        "body": _base64(said),
        "maxRetries": final.retries,
        "sourceMessageId": f"msg_{entry.schedule_id[4:]}",
        "url": entry.target_url,
        "method": "POST",
        "sourceBody": _base64(_body(story)),
        "createdAt": round(to_ms(entry.created_at)),
        "notBefore": round(to_ms(entry.scheduled_at)),
        "dlqId": entry.schedule_id[4:] if entry.status == "failed" else None,
    }
    told = {name: report.get(name) for name in expected}
    found = [] if told == expected else [f"its callback says {told}, and not {expected}"]
    if not 0 <= report.get("retried", -1) <= final.retries:
        found.append(f"its callback says {report.get('retried')} retries of {final.retries}")
    length = report.get("header", {}).get("Content-Length")
    if answer and length != [str(len(answer))]:
        found.append(f"its callback has an answer with the length {length}")
    return found


def _is_of_door(arrival: Arrival) -> bool:
    return arrival.door != NOT_OF_DOOR


def _body(story: Story) -> str:
    return body_of(tag_of(story.entry.target_url)) if story.entry else ""


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def _signed_wrongly(case: Case, story: Story, name: str, arrival: Arrival) -> list[str]:
    signed, _, signature = arrival.door[2].rpartition(".")
    key = next((each for each in case.keys if _hs256(each, signed) == signature), None)
    if key is None:
        return [f"{name} is signed by no key"]
    replaced_ms = case.keys[key] + _ROTATED_MS + SLACK_MS
    found = []
    if arrival.at_ms > replaced_ms and not woke_up(case, arrival.at_ms - SLACK_MS, arrival.at_ms):
        late_ms = arrival.at_ms - case.keys[key]
        found.append(f"{name} is signed by a key that was replaced {late_ms:.0f} ms before")
    claims = msgspec.json.decode(urlsafe_b64decode(signed.partition(".")[2] + "=="))
    digest = hashlib.sha256(arrival.body.encode()).digest()
    expected = {"iss": "Upstash", "body": urlsafe_b64encode(digest).decode()}
    if story.entry is not None:
        expected["sub"] = urljoin(story.entry.target_url, arrival.path)
    told = {claim: claims.get(claim) for claim in expected}
    if told != expected:
        found.append(f"{name} claims {told}, and not {expected}")
    if not claims["nbf"] * 1000 <= arrival.at_ms <= claims["exp"] * 1000:
        found.append(f"{name} claims to be good from {claims['nbf']} to {claims['exp']}")
    return found


def _hs256(key: str, signed: str) -> str:
    digest = hmac.digest(key.encode(), signed.encode(), hashlib.sha256)
    return urlsafe_b64encode(digest).decode().rstrip("=")
