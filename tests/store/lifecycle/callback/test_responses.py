"""The target's answer that a report has: kept until the report has arrived, weighed meanwhile, and
left out where the quota has no room for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.callbacks import UNSAID, Callback, CallbackOn, Response
from scheduler.models import Invocation, Outcome
from scheduler.store import keys
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import RESPONSE, seal_response
from scheduler.store.verdict import Verdict
from tests.store.scene import COMPLETED, FAILED, LEASE_MS, Scene

pytestmark = pytest.mark.sound
HERE, THERE = "https://example.com/ended", "https://example.com/failed"
ASKS = Callback(HERE, with_response=True)
SAID = Response((("Content-Type", "text/plain"), ("A", "1"), ("a", "2")), "né".encode())
DONE, FAILS = replace(COMPLETED, response=SAID), replace(FAILED, response=SAID)
FIELDS = {
    "responseHeaders": {"content-type": ["text/plain"], "a": ["1", "2"]},
    "responseBody": "né",
    "responseBodyEncoding": "utf-8",
    "responseCut": False,
}
LENGTH = len(seal_response(SAID, Secrecy()))


def told(call: Invocation) -> dict[str, Any]:
    """What a report says of the target's answer."""
    data = json.loads(call.request.body or b"")["data"]
    return {
        name: value
        for name, value in data.items()
        if name.startswith("response") and name != "responseTimeMs"
    }


async def kept(scene: Scene, call: Invocation) -> bool:
    return bool(await scene.redis.hexists(scene.key(call.schedule_id), RESPONSE))


async def called(scene: Scene, outcome: Outcome, callback: Callback = ASKS) -> Invocation:
    await scene.run(outcome, callback=callback)
    return await scene.claim_one()


@pytest.mark.parametrize("outcome", [DONE, FAILS])
async def test_it_is_kept_and_weighed_until_the_report_has_arrived(
    scene: Scene, outcome: Outcome
) -> None:
    made = await scene.run(replace(outcome, response=None), callback=ASKS)
    plain = await scene.claim_one()
    without = await scene.store.accounts.stored_bytes(scene.account_id)
    assert await scene.answer(plain) == Verdict.DONE
    call = await called(scene, outcome)
    assert call.schedule_id != made
    assert told(call) == FIELDS
    bytes_now = await scene.store.accounts.stored_bytes(scene.account_id)
    assert bytes_now == 2 * without + LENGTH
    assert await scene.answer(call, FAILED, 5) == Verdict.DONE
    await scene.clock.pass_ms(10)
    again = await scene.claim_one()
    assert again.request.body == call.request.body
    assert await scene.store.check() == []
    assert await scene.answer(again) == Verdict.DONE
    assert not await kept(scene, call)
    assert await scene.store.accounts.stored_bytes(scene.account_id) == 2 * without


async def test_after_a_failure_a_report_that_is_sent_again_has_it(scene: Scene) -> None:
    call = await called(scene, DONE)
    assert await scene.answer(call, FAILED) == Verdict.DONE
    assert await kept(scene, call)
    assert await scene.store.check() == []
    resend = scene.store.callbacks.resend
    await resend(scene.account_id, call.schedule_id, THERE)
    again = await scene.claim_one()
    assert (again.request.url, again.request.body) == (THERE, call.request.body)
    assert await scene.answer(again) == Verdict.DONE
    await resend(scene.account_id, call.schedule_id)
    assert told(await scene.claim_one()) == {"responseDropped": True}


@pytest.mark.parametrize(
    ("body", "shown", "code"),
    [(b"", "", "utf-8"), (b"\0", "\0", "utf-8"), (b"\xff\0", "/wA=", "base64")],
)
async def test_a_body_that_is_no_text_comes_as_base64(
    scene: Scene, body: bytes, shown: str, code: str
) -> None:
    response = Response((), body, cut=True)
    said = told(await called(scene, replace(COMPLETED, response=response)))
    expected = {"responseBody": shown, "responseBodyEncoding": code}
    assert said == {"responseHeaders": {}, "responseCut": True, **expected}


@pytest.mark.parametrize("over", [0, 1])
async def test_the_quota_may_leave_it_out_and_never_the_outcome(scene: Scene, over: int) -> None:
    """At the limit it fits, and with one more byte not; the next, smaller one may."""
    made = [await scene.create(callback=ASKS) for _ in range(2)]
    held = {each.schedule_id: each for each in await scene.claim()}
    bytes_now = await scene.store.accounts.stored_bytes(scene.account_id)
    small = Response((), b"")
    room = LENGTH - over + (len(seal_response(small, Secrecy())) if not over else 0)
    quota = scene.store.ends._retention.quotas[1]
    filler = int(quota) - bytes_now - room
    await scene.redis.hincrby(scene.base + keys.ACCOUNT, "bytes", filler)
    acks = [Ack(held[made[0]], DONE, 0)]
    acks.append(Ack(held[made[1]], replace(COMPLETED, response=small), 0))
    assert await scene.store.ends.ack(scene.shard, acks) == [Verdict.DONE] * 2
    calls = {each.schedule_id: told(each) for each in await scene.claim()}
    assert calls[made[0]] == ({"responseDropped": True} if over else FIELDS)
    assert calls[made[1]]["responseBody"] == ""
    await scene.redis.hincrby(scene.base + keys.ACCOUNT, "bytes", -filler)


LEFT_OUT = [
    # what the schedule says, the account's default, the outcome
    (replace(ASKS, on=CallbackOn.FAILED), None, DONE),
    (replace(UNSAID, with_response=True), None, FAILS),
    (replace(UNSAID, with_response=True), "failed", DONE),
]


@pytest.mark.parametrize(("callback", "default", "outcome"), LEFT_OUT)
async def test_nothing_is_kept_where_nothing_is_reported(
    scene: Scene, callback: Callback, default: str | None, outcome: Outcome
) -> None:
    if default:
        mapping = {"url": HERE, "on": default}
        await scene.redis.hset(scene.base + keys.CALLBACK, mapping=mapping)
    made = await scene.run(outcome, callback=callback)
    assert await scene.claim() == []
    assert not await scene.redis.hexists(scene.key(made), RESPONSE)


@pytest.mark.parametrize(("on", "outcome"), [("executed", DONE), ("failed", FAILS)])
async def test_the_accounts_report_has_it_too(scene: Scene, on: str, outcome: Outcome) -> None:
    await scene.redis.hset(scene.base + keys.CALLBACK, mapping={"url": THERE, "on": on})
    call = await called(scene, outcome, replace(UNSAID, with_response=True))
    assert (call.request.url, told(call)) == (THERE, FIELDS)


async def test_only_the_answer_to_the_last_attempt_is_reported(scene: Scene) -> None:
    invocation = await scene.held(callback=ASKS, retries=2)
    assert await scene.retry([invocation], 5, FAILS) == [Verdict.DONE]
    await scene.clock.pass_ms(10)
    again = await scene.claim_one()
    last = replace(COMPLETED, response=replace(SAID, body=b"at last"))
    assert await scene.ack([again], last) == [Verdict.DONE]
    assert told(await scene.claim_one())["responseBody"] == "at last"


async def test_one_that_was_stopped_between_two_attempts_has_none(scene: Scene) -> None:
    invocation = await scene.held(callback=ASKS, retries=1)
    assert await scene.retry([invocation], 60_000, FAILS) == [Verdict.DONE]
    await scene.cancel(invocation.schedule_id)
    assert told(await scene.claim_one()) == {"responseDropped": True}


async def test_without_an_answer_nothing_is_said_of_one(scene: Scene) -> None:
    lost = replace(FAILED, status_code=0, error_message="Worker lost; the request may have been")
    assert told(await called(scene, lost)) == {}


async def test_a_claim_brings_so_many_bytes_of_them_and_one_more(scene: Scene) -> None:
    large = replace(COMPLETED, response=Response((), 60_000 * b"x"))
    made = [await scene.create(callback=ASKS) for _ in range(4)]
    held = await scene.claim()
    assert await scene.ack(held, large) == [Verdict.DONE] * len(made)
    calls = await scene.claim(most_bytes=100_000)
    assert [each.size_bytes > 60_000 for each in calls] == [True, True]
    assert len(await scene.claim()) == 2


async def test_accounts_never_see_each_others(scene: Scene) -> None:
    [other] = await scene.neighbours(1)
    mine = await scene.create(callback=ASKS)
    theirs = await scene.create(account_id=other, callback=ASKS)
    held = {each.schedule_id: each for each in await scene.claim()}
    said = {each: replace(DONE, response=Response((), each.encode())) for each in held}
    acks = [Ack(held[each], said[each], 0) for each in (mine, theirs)]
    assert await scene.store.ends.ack(scene.shard, acks) == [Verdict.DONE] * 2
    for call in await scene.claim():
        assert told(call)["responseBody"] == call.schedule_id


async def test_a_repeat_of_a_lost_reply_adds_nothing(scene: Scene) -> None:
    invocation = await scene.held(callback=ASKS)
    assert await scene.ack([invocation], DONE) == [Verdict.DONE]
    weight = await scene.store.accounts.stored_bytes(scene.account_id)
    assert await scene.ack([invocation], DONE) == [Verdict.ENDED]
    assert await scene.store.accounts.stored_bytes(scene.account_id) == weight
    call = await scene.claim_one(lease_ms=LEASE_MS)
    assert await scene.answer(call) == Verdict.DONE
    assert await scene.answer(call) == Verdict.ENDED


@pytest.mark.harmed
async def test_one_that_nobody_will_report_is_found(scene: Scene) -> None:
    call = await called(scene, DONE)
    assert await scene.answer(call) == Verdict.DONE
    await scene.redis.hset(scene.key(call.schedule_id), RESPONSE, seal_response(SAID, Secrecy()))
    [_, fault] = sorted(await scene.store.check(), key=lambda each: "keeps" in each)
    assert "keeps its target's answer, though no callback is left to report it" in fault
