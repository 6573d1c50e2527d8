"""The heads of a stored request, for its lane, reference and recurring schedule: Python and scripts
read them as they were written, whichever there are, and whether the request is sealed or not."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace

from scheduler.errors import Unreadable
from scheduler.lanes import is_lane
from scheduler.models import Delivery, Occurrence, Request
from scheduler.store.heads import (
    Heads,
    head_of,
    heads_of,
    lane_head,
    lane_of,
    names_of,
    recurring_head,
)
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import scripts
from scheduler.store.stored import is_sealed, open_request, pack_request, seal_request
from tests.store.scene import Scene
from tests.support.plain import redis_of

_REQUEST = Request(1, "POST", "https://example.com/a", {"A": "b"}, b"{}")
_OTHER = replace(_REQUEST, url="https://example.com/b", lane="b", reference="other")
_SECRET = Secrecy([b"k" * 32])
_LANES = [None, "a", "Tenant-7.eu:x_y", "9" * 64]
_REFERENCES = [None, "#1", "order-17", "~" * 128]
_BOUNDS = [
    (Delivery.AT_LEAST_ONCE, None),
    (Delivery.AT_MOST_ONCE, 1_800_000_000_123),
    (Delivery.AT_LEAST_ONCE, 2**48 - 1),
]
_RULE = "rec_01h455vb4pex5vsknk084sn02q"
_OCCURRENCES = [None, Occurrence(_RULE), Occurrence(_RULE, 1_800_000_000_123)]
_READ = """--@include shared/now
--@include lifecycle/row/heads
local _, once, expires = lane_of(ARGV[1])
local lane, reference, weighs, rule = heads_of(ARGV[1])
return {lane, once and 1 or 0, string.format('%.0f', expires or 0), reference, weighs,
  with_recurring(ARGV[2], rule), has_slot(ARGV[1]) and 1 or 0}
"""


def requests() -> list[Request]:
    named = product(_LANES, _REFERENCES, _OCCURRENCES, _BOUNDS)
    return [
        replace(
            _REQUEST,
            lane=lane,
            reference=name,
            recurring=occurrence,
            delivery=once,
            expires_at_ms=expires,
        )
        for lane, name, occurrence, (once, expires) in named
    ]


@pytest.mark.parametrize("secrecy", [Secrecy(), _SECRET])
def test_a_request_is_read_as_it_was_stored(secrecy: Secrecy) -> None:
    for request in requests():
        sealed = seal_request(request, secrecy)
        assert open_request(sealed, secrecy) == request
        assert lane_of(sealed) == request.lane
        assert is_sealed(sealed) == (secrecy is _SECRET)
        head, packed = head_of(sealed)
        bare = replace(request, lane=None, reference=None, recurring=None)
        assert secrecy.open(packed) == pack_request(bare)
        length = len(request.reference or "") + 2 if request.reference else 0
        length += 33 if request.recurring else 0
        assert len(head) == length + (len(request.lane) + 9 if request.lane else 0)


async def test_scripts_read_the_same(scene: Scene) -> None:
    source = scripts._CONSTANT.sub(scripts._spelt, scripts._with_includes(_READ, set()))
    other = seal_request(_OTHER, Secrecy())
    for request in requests():
        found = await redis_of(scene.store).eval(source, 0, seal_request(request, Secrecy()), other)
        once = int(request.lane is not None and request.delivery is Delivery.AT_MOST_ONCE)
        expires = str(request.expires_at_ms or 0) if request.lane else "0"
        names = names_of(request.lane, request.reference)
        occurrence = request.recurring
        assert found == [
            names.lane.encode(),
            once,
            expires.encode(),
            names.reference.encode(),
            names.weight_bytes,
            seal_request(replace(_OTHER, recurring=occurrence), Secrecy()),
            int(occurrence is not None and occurrence.slot_ms is not None),
        ]


@pytest.mark.parametrize(
    "head",
    [
        b"#",
        b"#\x00",
        b"#\x01-0\0\0\0\0\0\0",
        b"#\x01a2\0\0\0\0\0\0",
        b"#\x01a1\0\0\0\0\0\0",  # the request is not at-most-once
        b"#\x01a0\0\0\0\0\0\1",  # nor does it expire
        b"#\x02\xc3\xa40\0\0\0\0\0\0",
        b"@",
        b"@\x01 ",
        b"@\x01a#\x01a0\0\0\0\0\0\0",  # in the other order
        b"~",
        b"~" + b"u" * 26 + b"\0\0\0\0\0\1",  # no id has this letter
        b"~01h455vb4pex5vsknk084sn02q\0\0\0\0\0",
        b"!",
    ],
)
def test_a_damaged_head_is_refused(head: bytes) -> None:
    with pytest.raises(Unreadable):
        open_request(head + pack_request(_REQUEST), Secrecy())


@pytest.mark.parametrize(
    "stored", [b"", b"#", b"#\xff", b"#\x01", b"@", b"@\xff", b"#\x00", b"~", b"~a"]
)
def test_bytes_that_end_early_have_heads_too(stored: bytes) -> None:
    assert b"".join(heads_of(stored)) == stored


def test_heads_are_told_apart() -> None:
    lane = lane_head("a", Delivery.AT_MOST_ONCE, 258)
    assert lane == b"#\x01a1\0\0\0\0\x01\x02"
    assert heads_of(lane + b"@\x01b\x95") == Heads(lane, b"@\x01b", b"", b"\x95")
    rule = recurring_head(Occurrence(_RULE, 258))
    assert rule == b"~01h455vb4pex5vsknk084sn02q\0\0\0\0\x01\x02"
    assert heads_of(lane + rule + b"\x95") == Heads(lane, b"", rule, b"\x95")
    assert heads_of(b"@\x01b" + rule + b"\x95") == Heads(b"", b"@\x01b", rule, b"\x95")


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        *((each, True) for each in ("a", "Z", "0", "a.b_c:d-e", "x" * 64)),
        *((each, False) for each in ("", "-a", ".a", "_", ":", "a b", "a/b", "ä", "a\n", "x" * 65)),
    ],
)
def test_the_names_of_lanes(text: str, sound: bool) -> None:
    assert is_lane(text) is sound
