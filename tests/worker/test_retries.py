"""Which outcomes are tried again, and when; a plain model of all of it beside the real one."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.durations import DAY_MS
from scheduler.models import Delivery, Invocation, Outcome, Request, Retry, RetryOn
from scheduler.schema import USUAL_DELAYS_MS
from worker.send.outcome import (
    Failure,
    answered,
    asked_ms,
    failed,
    next_attempt_at_ms,
    timed_out,
    unsent_outcome,
)

NOW_MS = 1_795_161_600_000  # 2026-11-20T08:00:00Z
AT_MOST_ONCE = Delivery.AT_MOST_ONCE
UNAVAILABLE = answered(503, "", 5)


def invocation(made: int = 0, attempt: int | None = None, **fields: object) -> Invocation:
    """One of which so many retries have been made before."""
    request = Request(NOW_MS, "GET", "http://example.com/", **({"retries": 3} | fields))  # type: ignore[arg-type]
    retry = Retry(made, NOW_MS, made, UNAVAILABLE, NOW_MS - 1000) if made else None
    attempt = made + 1 if attempt is None else attempt
    return Invocation(0, "acc_00_x", "sch_x", "1", attempt, math.inf, request, NOW_MS, retry=retry)


def wait_ms(
    outcome: Outcome = UNAVAILABLE, *, made: int = 0, chance: float = 0.0, **fields: object
) -> int | None:
    found = next_attempt_at_ms(
        invocation(made, **fields), outcome, sent=True, now_ms=NOW_MS, chance=chance
    )
    return None if found is None else found - NOW_MS


@pytest.mark.parametrize("code", [408, 409, 425, 429, 500, 599])
@pytest.mark.parametrize("delivery", [*Delivery])
def test_an_answer_that_says_not_now_is_tried_again(code: int, delivery: Delivery) -> None:
    assert wait_ms(answered(code, "", 5), delivery=delivery) == USUAL_DELAYS_MS[0]


@pytest.mark.parametrize("code", [200, 301, 400, 404, 600])
@pytest.mark.parametrize("delivery", [*Delivery])
def test_any_other_answer_is_final_unless_any_is_retried(code: int, delivery: Delivery) -> None:
    outcome, again = answered(code, "", 5), None if code == 200 else USUAL_DELAYS_MS[0]
    assert wait_ms(outcome, delivery=delivery) is None
    assert wait_ms(outcome, delivery=delivery, retry_on=RetryOn.ANY) == again


FINAL = {Failure.NOT_ALLOWED, Failure.BAD_REQUEST, Failure.LOST, Failure.EXPIRED}


@pytest.mark.parametrize("outcome", [*map(failed, Failure), timed_out(30_000)])
def test_no_answer_is_tried_again_unless_it_can_only_come_to_the_same(outcome: Outcome) -> None:
    is_final = outcome.error_message in [each.value for each in FINAL]
    for retry_on in RetryOn:
        expected = None if is_final else USUAL_DELAYS_MS[0]
        assert wait_ms(outcome, retry_on=retry_on) == expected


@pytest.mark.parametrize("outcome", [timed_out(30_000), *map(failed, sorted(set(Failure) - FINAL))])
def test_at_most_once_is_tried_again_only_if_surely_nothing_was_sent(outcome: Outcome) -> None:
    careful = invocation(delivery=AT_MOST_ONCE, retry_on=RetryOn.ANY)
    for sent, expected in ((True, None), (False, NOW_MS + USUAL_DELAYS_MS[0])):
        found = next_attempt_at_ms(careful, outcome, sent=sent, now_ms=NOW_MS, chance=0)
        assert found == expected


def test_there_are_as_many_as_were_asked_for() -> None:
    assert [wait_ms(made=made) is not None for made in range(5)] == [True] * 3 + [False] * 2


def test_each_delay_in_turn_and_the_last_for_all_others() -> None:
    waits = [wait_ms(made=made, retries=20, retry_delays_ms=(1000, 5000)) for made in range(4)]
    assert waits == [1000, 5000, 5000, 5000]
    usual = [wait_ms(made=made, retries=20) for made in range(7)]
    assert usual == [*USUAL_DELAYS_MS, USUAL_DELAYS_MS[-1], USUAL_DELAYS_MS[-1]]


@given(chance=st.floats(0, 1), delay_ms=st.integers(1000, 7 * DAY_MS))
def test_a_wait_is_lengthened_by_a_fifth_at_most_and_never_shortened(
    chance: float, delay_ms: int
) -> None:
    waited = wait_ms(chance=chance, retry_delays_ms=(delay_ms,))
    assert waited is not None
    assert delay_ms <= waited <= math.ceil(delay_ms * 1.2)


def in_future(seconds: float) -> str:
    moment = datetime.fromtimestamp(NOW_MS / 1000, UTC) + timedelta(seconds=seconds)
    return format_datetime(moment, usegmt=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("00120", 120_000),
        (in_future(120), 120_000),
        (in_future(-120), 0),
        ("Fri, 20 Nov 2026 08:00:30 GMT", 30_000),
        ("Friday, 20-Nov-26 08:00:30 GMT", 30_000),
        ("Fri Nov 20 08:00:30 2026", 30_000),
        # absurd
        ("86401", DAY_MS),
        ("9" * 60, DAY_MS),
        ("Fri, 31 Dec 9999 23:59:59 GMT", DAY_MS),
        # neither
        ("", 0),
        ("-5", 0),
        ("²", 0),
        ("Fri, 40 Nov 2026 08:00:30 GMT", 0),
        ("Fri, 20 Nov 99999 08:00:30 GMT", 0),
        (", ,", 0),
    ],
)
def test_what_a_retry_after_asks_for(text: str, expected: int) -> None:
    assert asked_ms(text, NOW_MS) == expected


@given(st.text(max_size=64))
def test_any_retry_after_is_a_wait_of_a_day_at_most(text: str) -> None:
    assert 0 <= asked_ms(text, NOW_MS) <= DAY_MS


@pytest.mark.parametrize("code", [429, 503])
def test_the_wait_is_the_longer_of_the_delay_and_what_the_target_asks_for(code: int) -> None:
    assert wait_ms(answered(code, "", 5, "120")) == 120_000
    assert wait_ms(answered(code, "", 5, "120"), chance=1) == 144_000
    assert wait_ms(answered(code, "", 5, "3")) == 10_000
    assert wait_ms(answered(500, "", 5, "120")) == 10_000, "no other status may ask"


def test_what_is_asked_for_is_a_day_at_most_and_an_own_delay_may_be_more() -> None:
    absurd = answered(503, "", 5, "99999999")
    for chance in (0, 0.5, 1):
        assert wait_ms(absurd, chance=chance) == DAY_MS
    assert wait_ms(absurd, retry_delays_ms=(2 * DAY_MS,)) == 2 * DAY_MS


def test_expires_at_bounds_the_whole() -> None:
    assert wait_ms(expires_at_ms=NOW_MS + 10_000) == 10_000
    assert wait_ms(expires_at_ms=NOW_MS + 9_999) is None
    assert wait_ms(answered(503, "", 5, "60"), expires_at_ms=NOW_MS + 59_999) is None


def test_a_retry_that_comes_too_late_ends_as_the_attempt_before() -> None:
    late = invocation(1, expires_at_ms=NOW_MS)
    assert unsent_outcome(late, NOW_MS) is None
    assert unsent_outcome(late, NOW_MS + 1) == UNAVAILABLE
    first = invocation(0, expires_at_ms=NOW_MS)
    assert unsent_outcome(first, NOW_MS + 1) == failed(Failure.EXPIRED)


def test_a_retry_of_a_schedule_that_was_given_fewer_ends_as_the_attempt_before() -> None:
    assert unsent_outcome(invocation(2, retries=2), NOW_MS) is None
    assert unsent_outcome(invocation(2, retries=1), NOW_MS) == UNAVAILABLE


@pytest.mark.parametrize("delivery", [*Delivery])
def test_a_request_that_replaced_one_between_two_attempts_has_had_no_retry(
    delivery: Delivery,
) -> None:
    tried = Retry(0, NOW_MS, 2, UNAVAILABLE, NOW_MS - 1000)
    fields = {"delivery": delivery, "expires_at_ms": NOW_MS}
    mine = msgspec.structs.replace(invocation(2, retries=0, **fields), retry=tried)
    assert unsent_outcome(mine, NOW_MS) is None
    assert unsent_outcome(mine, NOW_MS + 1) == failed(Failure.EXPIRED)
    retried = msgspec.structs.replace(invocation(2, retries=1), retry=tried)
    told = {"sent": True, "now_ms": NOW_MS, "chance": 0.0}
    assert next_attempt_at_ms(retried, UNAVAILABLE, **told) == NOW_MS + USUAL_DELAYS_MS[0]


def test_at_most_once_is_given_up_if_a_worker_was_lost_since_the_last_attempt() -> None:
    for made in (0, 2):
        mine = invocation(made, delivery=AT_MOST_ONCE)
        assert unsent_outcome(mine, NOW_MS) is None
        taken_over = invocation(made, made + 2, delivery=AT_MOST_ONCE)
        assert unsent_outcome(taken_over, NOW_MS) == failed(Failure.LOST)
        assert unsent_outcome(invocation(made, made + 2), NOW_MS) is None
