"""A large batch is read in pieces, and is what it is when it is read at once."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from api.calls import batch
from api.calls.batch import items_of, parse_batch
from api.limits import MAX_ITEMS
from api.schema import incremental_json
from api.schema.json_text import List
from scheduler.errors import InvalidRequest
from scheduler.runtime import pause

URL = "https://example.com/"


def item(n: int = 0, **more: object) -> dict[str, Any]:
    return {"targetUrl": f"{URL}{n}", "delay": "1h", "targetBody": {"n": [{"a": n}, {}]}, **more}


MANY = [item(n) for n in range(300)]
PLAIN = json.dumps({"schedules": MANY}).encode()
TEXTS = {
    "plain": PLAIN,
    "compact": json.dumps({"schedules": MANY}, separators=(",", ":")).encode(),
    "indented": json.dumps({"schedules": MANY}, indent="\t").encode(),
    "blanks behind": PLAIN + b" \r\n",
    "a key like the first, further in": json.dumps(
        {"schedules": [item(targetBody={"x": [item(), item()]}) for _ in range(100)]}
    ).encode(),
    "a text like an end": json.dumps(
        {"schedules": [item(reference='}, {"targetUrl"', lane="]}") for _ in range(100)]}
    ).encode(),
    "escapes": json.dumps({"schedules": [item(reference='\\"\u00e9') for _ in MANY]}).encode(),
    "half surrogates": PLAIN.replace(b"1h", b"\\ud800"),
    "UTF-8": PLAIN.replace(b"1h", "ü".encode()),
    "no UTF-8": PLAIN.replace(b"1h", b"\xff", 200),
    "half of a character": PLAIN[:-2] + "ü".encode()[:1],
    "different first keys": json.dumps(
        {
            "schedules": [
                dict(reversed(each.items())) if n % 7 else each for n, each in enumerate(MANY)
            ]
        }
    ).encode(),
    "no objects": json.dumps({"schedules": list(range(2000))[:900]}).encode(),
    "a large item": json.dumps({"schedules": [item(), item(lane="a" * 5000), *MANY]}).encode(),
    "a very large item": json.dumps({"schedules": [item(), item(lane="a" * 9000), *MANY]}).encode(),
    "as many as may be": json.dumps({"schedules": [item()] * MAX_ITEMS}).encode(),
    "too many": json.dumps({"schedules": [item()] * (MAX_ITEMS + 1)}).encode(),
    "another member first": json.dumps({"x": 1, "schedules": MANY}).encode(),
    "another member": json.dumps({"schedules": MANY, "x": 1}).encode(),
    "twice": PLAIN[:-1] + b"," + PLAIN[1:],
    "no list": json.dumps({"schedules": {"a": MANY}}).encode(),
    "no end": PLAIN[:-2],
    "no end of an item": PLAIN[:-9],
    "more behind": PLAIN + b"1",
    "a comma too many": PLAIN.replace(b"}, {", b"},, {", 150),
    "a comma at the end": PLAIN[:-2] + b",]}",
    "deep": json.dumps({"schedules": MANY}).encode()[:-2] + b"," + b"[" * 5000,
}


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incremental_json, "_PIECE_BYTES", 700)
    monkeypatch.setattr(incremental_json, "_LONGEST_BYTES", 7000)
    monkeypatch.setattr(batch, "LARGE_BYTES", 0)


async def read(text: bytes) -> object:
    try:
        return list(map(bytes, await items_of(text)))
    except InvalidRequest as refusal:
        return str(refusal), refusal.details


def read_at_once(text: bytes) -> object:
    try:
        return list(map(bytes, parse_batch(text)))
    except InvalidRequest as refusal:
        return str(refusal), refusal.details


@pytest.mark.parametrize("name", TEXTS)
async def test_it_has_the_same_items_or_the_same_fault(small_pieces: None, name: str) -> None:
    assert await read(TEXTS[name]) == read_at_once(TEXTS[name])


@pytest.mark.usefixtures("small_pieces")
async def test_wherever_it_is_broken_the_fault_is_the_same() -> None:
    dice = random.Random(16)
    for _ in range(1500):
        text = bytearray(PLAIN)
        for _ in range(dice.randrange(1, 3)):
            at = dice.randrange(len(text)) if dice.random() < 0.7 else -dice.randrange(1, 20)
            text[at] = dice.choice(b'{}[],:"\\1a \xff')
        assert await read(bytes(text)) == read_at_once(bytes(text)), bytes(text)


async def test_no_part_is_large(small_pieces: None, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, rounds = list[int](), 0
    elements = List.elements

    def counted(self: List, text: bytes) -> Any:
        sizes.append(len(text))
        return elements(self, text)

    async def other() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(List, "elements", counted)
    monkeypatch.setattr(List, "elements_within", lambda *_: pytest.fail("it was read at once"))
    monkeypatch.setattr(pause, "PIECE_S", 0.0)
    task = asyncio.create_task(other())
    for name in ("plain", "compact", "indented", "a text like an end", "escapes", "UTF-8"):
        sizes.clear()
        rounds = 0
        assert len(await items_of(TEXTS[name])) in (100, 300)
        assert max(sizes) <= 702
        assert rounds >= len(sizes) >= len(TEXTS[name]) // 702
    task.cancel()
