"""A rule's request with another time is the same, byte for byte, as one that is packed again."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.callbacks import NO_URL, Callback
from scheduler.errors import Unreadable
from scheduler.models import Delivery, Request, RetryOn
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.store.heads import names_of
from scheduler.store.recurring.chain import Chain, retimed
from scheduler.store.recurring.rules import StoredRule, new_rule, occurrence_of, template
from scheduler.store.secrecy import Secrecy
from scheduler.store.server.clock import StoreClock
from scheduler.store.stored import open_request, seal_request

NOW_MS = 1_800_000_000_000
SLOT_MS = NOW_MS + 3_600_000
CLEAR = Secrecy()
PLAIN = Request(0, "POST", "https://example.com/hook", {"a": "b"}, b"{}")


def rule_of(request: Request, secrecy: Secrecy = CLEAR, **timing: int) -> StoredRule:
    draft = Draft(request, Timing(every_ms=3_600_000, starts_at_ms=NOW_MS, **timing))
    return new_rule("acc_01_abcdefgh", draft, NOW_MS, secrecy)


def made(rule: StoredRule, at_ms: int = SLOT_MS, secrecy: Secrecy = CLEAR) -> bytes:
    slot_ms, packed, *names = Chain(secrecy, StoreClock(), 10**12).row(rule, at_ms)
    request = rule.request(secrecy)
    assert (slot_ms, tuple(names)) == (at_ms, names_of(request.lane, request.reference))
    return bytes(packed)


def packed_again(rule: StoredRule, at_ms: int = SLOT_MS) -> bytes:
    request = open_request(rule.packed, CLEAR)
    return seal_request(occurrence_of(request, rule.timing, at_ms, at_ms), CLEAR)


@pytest.mark.parametrize(
    ("request_", "is_short"),
    [
        (PLAIN, True),
        (msgspec.structs.replace(PLAIN, method="GET", body=None, headers={}), True),
        (msgspec.structs.replace(PLAIN, method="QUERY", url="ftp://example.com"), True),
        (msgspec.structs.replace(PLAIN, delivery=Delivery.AT_MOST_ONCE, retries=3), True),
        (msgspec.structs.replace(PLAIN, trace=bytes(24)), True),
        (msgspec.structs.replace(PLAIN, timeout_s=7), True),
        (msgspec.structs.replace(PLAIN, callback=Callback(NO_URL)), True),
        (msgspec.structs.replace(PLAIN, retry_on=RetryOn.ANY), False),
        (msgspec.structs.replace(PLAIN, labels=("a", "b")), False),
        (msgspec.structs.replace(PLAIN, door=b"\x90"), False),
        (msgspec.structs.replace(PLAIN, lane="imports"), False),
        (msgspec.structs.replace(PLAIN, reference="order-1"), False),
    ],
)
@pytest.mark.parametrize("at_ms", [SLOT_MS, SLOT_MS + 1, 0, 5, (1 << 32) - 1, 1 << 32])
def test_it_is_the_same_as_packed_again(request_: Request, is_short: bool, at_ms: int) -> None:
    rule = rule_of(request_)
    assert made(rule, at_ms) == packed_again(rule, at_ms)
    is_timed = retimed(rule.packed, at_ms, CLEAR) is not None
    assert is_timed == (is_short and at_ms >= 1 << 32)


def test_a_longer_array_is_packed_again() -> None:
    """Were there more fields: its length would stand where the time does in a short one."""
    rule = rule_of(PLAIN)
    head, text = rule.packed[:33], rule.packed[33:]
    rule.packed = head + bytes((0xDC, 0, text[0] & 0x0F)) + text[1:]
    assert made(rule) == packed_again(rule)


def test_one_that_expires_says_when() -> None:
    rule = rule_of(PLAIN, expires_after_ms=60_000)
    assert open_request(made(rule), CLEAR).expires_at_ms == SLOT_MS + 60_000
    assert made(rule) == packed_again(rule)


def test_it_is_sealed_anew() -> None:
    secrecy = Secrecy([bytes(32)])
    rule = rule_of(PLAIN, secrecy)
    ones = {made(rule, secrecy=secrecy) for _ in range(2)}
    assert len(ones) == 2
    wanted = occurrence_of(template(PLAIN, rule.recurring_id), rule.timing, SLOT_MS, SLOT_MS)
    assert [open_request(each, secrecy) for each in ones] == [wanted] * 2


def test_what_cannot_be_read_makes_none() -> None:
    sealed = rule_of(PLAIN, Secrecy([bytes(32)]))
    cut = rule_of(PLAIN)
    cut.packed = cut.packed[:-3]
    other = rule_of(PLAIN)
    other.packed = other.packed[:33] + b"\x95\x00\xc0\xc0\xc0\xc0"
    empty = rule_of(PLAIN)
    empty.packed = empty.packed[:33]
    for rule in (sealed, cut, other, empty):
        with pytest.raises(Unreadable):
            made(rule)
