"""The items of a batch, judged and packed in one pass: as if each were judged by itself."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.schema.items import Item, Items, bare_items, text_of
from api.schema.json_text import Part
from api.schema.payload import parse_create
from scheduler import ids
from scheduler.errors import InvalidRequest
from scheduler.models import Packed, Request, Upsert
from scheduler.store.lifecycle.create.on_existing import row_of
from scheduler.store.queries.listing import Selection
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import seal_request
from tests.api.conftest import Api
from tests.api.schema.test_payload import (
    _MOSTLY_REQUIRED,
    _OPTIONAL,
    AT,
    BAD,
    NO_JSON,
    NOW_MS,
    RULES,
    TAKEN,
    URL,
    payload,
)

ORIGIN = URL.removesuffix("/hook")
MASKED = "%E2%80%A2" * 8
URLS = [
    *(f"{ORIGIN}/a?b=%7Bc%7D#d", f"{ORIGIN}/{MASKED}", f"{ORIGIN}/ü", ORIGIN, f"{URL}\n"),
    *("https://example.com:1", "https://example.com:22/", "https://EXAMPLE.com/"),
    *("http://10.0.0.1/", "http://example.com/", f"{ORIGIN}@evil.example/"),
    f"{ORIGIN}/".ljust(8193, "a"),
]
RETRIED: dict[str, Any] = {
    "delivery": "at-most-once",
    "retries": 3,
    "retryDelays": ["5s"],
    "timeout": "5s",
}
OTHERS: list[dict[str, Any]] = [
    *(payload(targetUrl=url) for url in URLS),
    *({"targetUrl": URL, "delay": delay} for delay in ("1h", "2h", "1 h", 5)),
    *(payload(targetHeaders={"X-A": value}, targetBody={"a": 1}) for value in "ab"),
    *(payload(delay="1h"), {"targetUrl": URL}, payload(targetMethod=None)),
    *(payload(**RETRIED | {"targetBody": body}) for body in (None, {"a": 1})),
    *(payload(**RETRIED | {name: None}) for name in RETRIED),
    payload(**{name: RETRIED[name] for name in RETRIED if name != "retries"}),
    *(payload(callbackUrl=url) for url in (f"{URL}?a", f"{URL}?b", "http://10.0.0.1/", None)),
    *(payload(callbackUrl=URL, callbackOn=on) for on in ("failed", "executed", None)),
    *(payload(callbackOn=on) for on in ("failed", "executed", "never", None)),
    payload(callbackUrl=None, callbackOn="failed"),
    *(
        payload(retries=99),
        payload(timeout=31),
        *(payload(reference=reference) for reference in ("a", "b", "c*", None)),
        *(payload(lane=lane) for lane in ("a", "b:c", "-", None)),
        payload(lane="a", reference="b"),
        payload(**RETRIED | {"lane": "a"}),
        payload(lane="a", expiresAt="2026-11-20T10:00:00Z"),
        payload(lane="a", reference="a", onExisting="keep"),
        *(payload(onExisting=way) for way in ("keep", "replace", "never", None)),
        *(payload(reference="a", onExisting=way) for way in ("keep", "replace", 5, None)),
        *(payload(reference="a", onExisting="replace", maxWait=w) for w in ("1h", 2.0, -1, None)),
        *(payload(reference="a", onExisting=way, maxWait="1h") for way in ("keep", None)),
        payload(maxWait="1h"),
        payload(reference="a", maxWait=None),
        payload(targetBodyText="a"),
        payload(targetMethod="PUT", retries=1),
    ),
]
ITEMS = [payload(**fields) for fields, _ in (*TAKEN, *BAD)] + OTHERS
TEXTS = [json.dumps(each).encode() for each in ITEMS]
HALVES = ('"targetBody":{"a":"\\ud800"}', '"targetHeaders":{"X-A":"\\ud800"}')
ODD = [
    f'{{"targetUrl":"{URL}","triggerAt":"{AT}",{more}}}'.encode()
    for more in (
        '"targetBody" :\t{ "a":1e400 }',
        f'"targetBody":{{"a":{"[" * 500}1{"]" * 500}}}',
        '"targetUrl":"http://10.0.0.1/"',
        '"targetMethod":5,"targetMethod":"put"',
        '"targetHeaders":{"X-\\u0041":"\\u00e9"}',
        *HALVES,
    )
]
# Fields of items that may be packed in one pass; these have a text.
TEXT_FIELDS = {"targetUrl", "triggerAt", "delay", "targetMethod"}
FIELDS = TEXT_FIELDS | {"targetHeaders", "targetBody", "lane", "reference"} | RETRIED.keys()
FIELDS |= {"callbackUrl", "callbackOn", "onExisting", "maxWait"}
WAYS: dict[str, st.SearchStrategy[Any]] = {
    "reference": st.sampled_from(["a", "b"]),
    "onExisting": st.sampled_from(["keep", "replace", "replace", "never", None]),
    "maxWait": st.sampled_from(["1h", "2h", 5, "1 h", None]),
}
CREATED_MS = NOW_MS - 3_600_000
Judge = Callable[[bytes], Request | Packed | Upsert]


def came_to(judge: Judge, text: bytes) -> object:
    """When it is due, and what the store gets, also for one that waits; or why it is refused."""
    try:
        found = judge(text)
    except InvalidRequest as refusal:
        return str(refusal), refusal.reason, refusal.details, refusal.unlisted
    rows: list[tuple[Request | Packed, str]] = []
    if not isinstance(found, Upsert):
        rows = [(found, "")]
    else:
        waiting = ids.local(ids.new_schedule_ids(1, CREATED_MS)[0])[:10].ljust(26, "0")
        rows = [row_of(found, NOW_MS, basis) for basis in ("", waiting)]
    return [(each.trigger_at_ms, seal_request(each, Secrecy()), way) for each, way in rows]


def alone(text: bytes) -> object:
    return came_to(lambda text: parse_create(text, RULES, NOW_MS), text)


def is_refused(text: bytes) -> bool:
    return isinstance(alone(text), tuple)


def items_after(text: bytes) -> Items:
    items = Items(RULES, NOW_MS)
    came_to(items.judged, text)
    return items


def together(those: Sequence[Part | Item]) -> list[object]:
    """What items came to that were judged as those of a batch are: some at once, where they are
    alike."""
    items, found = Items(RULES, NOW_MS), list[object]()
    while len(found) < len(those):
        alike = items.first_alike(those, len(found))
        found += [came_to(partial(_given, each), b"") for each in alike]
        if not alike:
            found.append(came_to(items.judged, text_of(those[len(found)])))
    return found


def batch_of(texts: Sequence[bytes]) -> bytes:
    return b'{"schedules": [%b]}' % b", ".join(texts)


def _given(request: Packed | Upsert, _: bytes) -> Packed | Upsert:
    return request


@pytest.mark.slow
def test_what_was_judged_of_another_item_changes_nothing() -> None:
    texts = TEXTS + ODD + NO_JSON[:3]
    wanted = {text: alone(text) for text in texts}
    for first, second in product(texts, texts):
        found = came_to(items_after(first).judged, second)
        assert found == wanted[second], (first, second)
    # After one that is refused none is judged at once.
    good = [text for text in texts if not isinstance(wanted[text], tuple)]
    for first, second in product(good, texts):
        assert together([first, second, second]) == [wanted[first], *[wanted[second]] * 2]


@given(st.lists(st.fixed_dictionaries(_MOSTLY_REQUIRED, optional=_OPTIONAL | WAYS)))
def test_items_of_a_batch_are_each_judged_as_by_themselves(bodies: list[dict[str, Any]]) -> None:
    items, texts = Items(RULES, NOW_MS), [json.dumps(body).encode() for body in bodies]
    assert [came_to(items.judged, text) for text in texts] == [alone(text) for text in texts]
    assert together(texts) == [alone(text) for text in texts]
    if decoded := bare_items(batch_of(texts), 2**20):
        assert together(decoded) == [alone(text) for text in texts]


def test_items_without_further_fields_are_decoded_at_once() -> None:
    texts = [json.dumps(payload(targetBody={"n": n}), indent=n).encode() for n in range(1, 100)]
    texts += [text for text in TEXTS + ODD if bare_items(batch_of([text]), 2**20)]
    assert len(texts) > 110
    decoded = bare_items(batch_of(texts), 2**20)
    assert len(decoded) == len(texts)
    assert together(decoded) == [alone(text) for text in texts]


def test_other_batches_are_not_decoded_at_once() -> None:
    text = json.dumps(payload()).encode()
    size = len(batch_of([text] * 3))
    assert len(bare_items(batch_of([text] * 3), size)) == 3
    assert len(bare_items(batch_of([text] * 1000), 700 * len(text))) == 1000
    blanks = text[:-1] + b" " * 200 + b"}"
    assert bare_items(batch_of([text, blanks, text]), len(blanks)) == []
    further, half = json.dumps(payload(retries=3)).encode(), text.replace(b"/hook", rb"/\ud800")
    assert half != text
    for odd in (further, half, b"1", b"{}", b"", text + b"}", text[:-1], b'"\xff"'):
        assert bare_items(batch_of([text, odd, text]), 2**20) == []
    assert bare_items(batch_of([text] * 1001), 2**20) == []
    assert bare_items(batch_of([]), 2**20) == bare_items(b"", 2**20) == []


@pytest.mark.slow
def test_thousands_of_random_items_are_each_judged_as_by_themselves() -> None:
    dice, items = random.Random(37), Items(RULES, NOW_MS)
    body, texts = dict[str, Any](), list[bytes]()
    for _ in range(10_000):
        # Some like the one before, most with another value or two.
        body = dict(dice.choice(ITEMS)) if dice.random() < 0.3 else dict(body)
        for other in dice.sample(ITEMS, dice.randrange(3)):
            if other:
                name = dice.choice(list(other))
                body[name] = other[name]
        if body and dice.random() < 0.2:
            del body[dice.choice(list(body))]
        text = json.dumps(body).encode()
        assert came_to(items.judged, text) == alone(text), body
        texts.append(text)
    wanted = [alone(text) for text in texts]
    assert together(texts) == wanted
    bare = [n for n, text in enumerate(texts) if bare_items(batch_of([text]), 2**20)]
    for start in range(0, len(bare), 1000):
        some = bare[start : start + 1000]
        decoded = bare_items(batch_of([texts[n] for n in some]), 2**24)
        assert together(decoded) == [wanted[n] for n in some]


def test_items_like_the_first_are_judged_at_once() -> None:
    texts = [
        json.dumps(payload(targetUrl=f"{URL}/{n}", targetBody={"n": n}, reference=f"r{n}")).encode()
        for n in range(100)
    ]
    items, counts = items_after(texts[0]), list[int]()
    while (start := 1 + sum(counts)) < len(texts):
        counts.append(len(items.first_alike(texts, start)))
    assert counts == [2, 4, 8, 16, 32, 32, 5]
    odd = [*texts[:20], json.dumps(payload(targetUrl="http://10.0.0.1/")).encode(), *texts[20:]]
    items = items_after(odd[0])
    assert [len(items.first_alike(odd, start)) for start in (0, 2, 6, 14, 20, 21)] == [
        2,
        4,
        8,
        6,
        0,
        0,
    ]
    large = json.dumps(payload(targetBody={"a": "x" * 10_000})).encode()
    assert items_after(large).first_alike([large], 0) == []


def test_an_item_like_the_one_before_is_packed_in_one_pass() -> None:
    for item, text in zip(ITEMS, TEXTS, strict=True):
        if not is_refused(text):
            is_usual = item.keys() <= FIELDS and all(
                item.get(f, "") is not None for f in TEXT_FIELDS
            )
            found = items_after(text).judged(text)
            request = found.request if isinstance(found, Upsert) else found
            assert isinstance(request, Packed) == is_usual, item


@pytest.mark.parametrize("texts", [TEXTS + ODD[: -len(HALVES)], TEXTS + ODD])
async def test_a_batch_is_answered_and_stored_the_same_either_way(
    api: Api, monkeypatch: pytest.MonkeyPatch, texts: list[bytes]
) -> None:
    monkeypatch.setattr(api.store.clock, "now_ms", lambda: NOW_MS)
    at_once = await batch(api, texts)
    await api.store.canceller.waiting(api.account_id, Selection(limit=1000, reference="*"))
    monkeypatch.setattr(Items, "judged", lambda _, text: parse_create(text, RULES, NOW_MS))
    assert at_once == await batch(api, texts)
    assert len(at_once) == len(texts)


async def batch(api: Api, texts: list[bytes]) -> list[Any]:
    """What each item came to: its refusal, or what is stored and was answered."""
    content = b'{"schedules":[%b]}' % b",".join(texts)
    answer = await api.client.post("/schedule/batch", content=content)
    found = answer.json()["schedules"]
    for each in found:
        if "scheduleId" in each:
            each["stored"] = await api.stored(each.pop("scheduleId"))
            del each["invocationId"]
    return list(found)
